// CUDA's row of the registry.
#include <algorithm>
#include <map>
#include <mutex>

#include "backends/cuda/cuda_compiler.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/nvrtc.h"
#include "runtime/registry.h"

namespace lathe::backends {
namespace {

std::vector<std::string> cuda_rows() {
  std::vector<std::string> out;
  for (const std::string& name : target_names())
    if (name.starts_with("sm_")) out.push_back(name);
  std::reverse(out.begin(), out.end());  // newest first
  return out;
}

// The first GPU's architecture, or the newest known one where there is no GPU.
std::string own_architecture() {
  const CudaDriver* driver = CudaDriver::get();
  return driver == nullptr ? cuda_rows().front() : architecture_of(*driver, 0);
}

std::vector<std::string> targets() {
  std::vector<std::string> out = cuda_rows();
  std::string own = own_architecture();
  std::erase(out, own);
  out.insert(out.begin(), own);
  return out;
}

// A row of target.cpp, or the oldest row under the name of a GPU that has none: its facts hold for every
// newer one.
Target target_of(std::string_view name) {
  std::string wanted = name.empty() ? own_architecture() : std::string(name);
  std::vector<std::string> rows = cuda_rows();
  if (std::find(rows.begin(), rows.end(), wanted) != rows.end() || wanted != own_architecture())
    return named_target(wanted);
  Target target = named_target(rows.back());
  target.name = wanted;
  return target;
}

std::shared_ptr<const Compiler> shared_compiler(std::string_view name) {
  static std::mutex mutex;
  static auto* made = new std::map<std::string, std::shared_ptr<const Compiler>>;
  Target target = target_of(name);
  std::lock_guard lock(mutex);
  auto& compiler = (*made)[target.name];
  if (!compiler) compiler = make_cuda_compiler(std::move(target));
  return compiler;
}

std::string why_unavailable() {
  if (CudaDriver::get() == nullptr) return CudaDriver::why_missing();
  return Nvrtc::get() == nullptr ? Nvrtc::why_missing() : "";
}

}  // namespace

void register_cuda_backend(Registry& registry);

void register_cuda_backend(Registry& registry) {
  Backend backend;
  backend.name = "CUDA";
  backend.targets = targets;
  backend.compiler = shared_compiler;
  backend.open = open_cuda_device;
  backend.unavailable = why_unavailable;
  registry.add(std::move(backend));
}

}  // namespace lathe::backends
