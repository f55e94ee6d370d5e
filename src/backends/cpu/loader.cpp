#include "backends/cpu/loader.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "backends/cpu/binary.h"
#include "backends/cpu/host.h"
#include "backends/cpu/llvm_module.h"
#include "base/error.h"

namespace lathe::backends {
namespace {

// Takes a text that the module made.
std::string take(const LlvmInterface& llvm, char* text) {
  std::string out = text != nullptr ? text : "unknown error";
  llvm.release(text);
  return out;
}

class ObjectCode : public LoadedCode {
 public:
  explicit ObjectCode(std::string_view object) : llvm_(require_llvm_module()) {
    char* error = nullptr;
    loaded_ = llvm_.load(object.data(), object.size(), &error);
    if (loaded_ == nullptr)
      throw DeviceError("CPU", "a compiled kernel cannot be loaded").note(take(llvm_, error));
  }
  ~ObjectCode() override { llvm_.unload(loaded_); }
  KernelFunction find(const std::string& symbol) override {
    char* error = nullptr;
    void* address = llvm_.find(loaded_, symbol.c_str(), &error);
    if (address == nullptr)
      throw DeviceError("CPU", fmt::format("kernel {} cannot be loaded", symbol)).note(take(llvm_, error));
    return reinterpret_cast<KernelFunction>(address);
  }

 private:
  const LlvmInterface& llvm_;
  LlvmLoaded* loaded_ = nullptr;
};

// A shared library from memory. The descriptor stays open with it: the loader knows libraries by their path,
// and a number used again would give it the old one.
class LibraryCode : public LoadedCode {
 public:
  explicit LibraryCode(std::string_view bytes) {
    file_ = memfd_create("lathe-kernels", MFD_CLOEXEC);
    if (file_ < 0) throw DeviceError("CPU", fmt::format("memfd_create: {}", std::strerror(errno)));
    std::size_t written = 0;
    while (written < bytes.size()) {
      ssize_t n = write(file_, bytes.data() + written, bytes.size() - written);
      if (n <= 0) {
        close(file_);
        throw DeviceError("CPU", fmt::format("writing a compiled kernel: {}", std::strerror(errno)));
      }
      written += static_cast<std::size_t>(n);
    }
    library_ = dlopen(fmt::format("/proc/self/fd/{}", file_).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      std::string reason = dlerror();
      close(file_);
      throw DeviceError("CPU", "a compiled kernel cannot be loaded").note(reason);
    }
  }
  ~LibraryCode() override {
    dlclose(library_);
    close(file_);
  }
  KernelFunction find(const std::string& symbol) override {
    void* address = dlsym(library_, symbol.c_str());
    if (address == nullptr) throw DeviceError("CPU", fmt::format("kernel {} is not in its library", symbol));
    return reinterpret_cast<KernelFunction>(address);
  }

 private:
  int file_ = -1;
  void* library_ = nullptr;
};

// Libraries in memory by their bytes: a batch of kernels is one library, loaded once.
std::shared_ptr<LoadedCode> shared_library(std::string_view bytes) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::weak_ptr<LoadedCode>, std::less<>>;
  std::lock_guard lock(mutex);
  if (auto found = known->find(bytes); found != known->end())
    if (auto code = found->second.lock()) return code;
  std::erase_if(*known, [](const auto& entry) { return entry.second.expired(); });
  auto code = std::make_shared<LibraryCode>(bytes);
  known->emplace(bytes, code);
  return code;
}

}  // namespace

std::unique_ptr<CpuKernel> load_kernel(const Binary& binary) {
  CpuCode code = unpack(binary.bytes);
  if (std::string missing = missing_features(code.features); !missing.empty())
    throw DeviceError("CPU", fmt::format("kernel {} was compiled for another CPU", binary.entry))
        .note(fmt::format("this CPU lacks {}", missing))
        .help("compile it again on this machine");
  auto kernel = std::make_unique<CpuKernel>();
  kernel->name = binary.entry;
  kernel->scratch_bytes = code.scratch_bytes;
  if (code.kind == CodeKind::Object)
    kernel->code = std::make_shared<ObjectCode>(code.code);
  else
    kernel->code = shared_library(code.code);
  kernel->function = kernel->code->find(binary.entry);
  return kernel;
}

}  // namespace lathe::backends
