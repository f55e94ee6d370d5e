// The CPU's row of the registry.
#include <map>
#include <mutex>

#include "backends/cpu/compilers.h"
#include "backends/cpu/cpu_device.h"
#include "backends/cpu/host.h"
#include "base/env.h"
#include "runtime/registry.h"

namespace lathe::backends {
namespace {

// Compilers by target and by what LATHE_CPU says; they hold no state, so one of each is enough.
std::shared_ptr<const Compiler> shared_compiler(std::string_view name) {
  static std::mutex mutex;
  static auto* made = new std::map<std::string, std::shared_ptr<const Compiler>>;
  Target target = cpu_target(name);
  std::string key = flag_text(Flag::Cpu) + " " + target.name;
  std::lock_guard lock(mutex);
  auto& compiler = (*made)[key];
  if (!compiler) compiler = make_cpu_compiler(std::move(target));
  return compiler;
}

std::string why_unavailable() {
#if defined(__x86_64__)
  return missing_features(cpu_target("x86-64-v2").features).empty() ? "" : "the CPU is older than x86-64-v2";
#else
  return "only x86-64 machines are supported so far";
#endif
}

}  // namespace

void register_cpu_backend(Registry& registry);

void register_cpu_backend(Registry& registry) {
  Backend backend;
  backend.name = "CPU";
  backend.targets = cpu_target_names;
  backend.compiler = shared_compiler;
  backend.open = open_cpu_device;
  backend.unavailable = why_unavailable;
  registry.add(std::move(backend));
}

}  // namespace lathe::backends
