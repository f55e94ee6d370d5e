#include "backends/cpu/llvm_module.h"

#include <dlfcn.h>

#include <string_view>
#include <vector>

#include "base/error.h"

namespace lathe::backends {
namespace {

constexpr const char* kFile = "liblathe_llvm.so";

std::string folder_of(const std::string& path) {
  std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash);
}

// Beside the program or library this code is in, where the build or the installation put it, then the
// loader's path.
std::vector<std::string> candidates() {
  std::vector<std::string> out;
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&llvm_module), &self) != 0 && self.dli_fname != nullptr) {
    std::string folder = folder_of(self.dli_fname);
    out.push_back(folder + "/" + kFile);
    out.push_back(folder + "/lathe/" + kFile);
    out.push_back(folder + "/../lib/" + kFile);
    out.push_back(folder + "/../lib/lathe/" + kFile);
  }
  std::string_view path = LATHE_MODULE_PATH;
  while (!path.empty()) {
    std::size_t colon = path.find(':');
    out.push_back(std::string(path.substr(0, colon)) + "/" + kFile);
    path = colon == std::string_view::npos ? "" : path.substr(colon + 1);
  }
  out.emplace_back(kFile);
  return out;
}

struct Loaded {
  const LlvmInterface* table = nullptr;
  std::string why;
};

Loaded load() {
  Loaded out;
  for (const std::string& path : candidates()) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      // The first refusal of a file that exists says more than "not found" of the last.
      std::string reason = dlerror();
      if (out.why.empty() || reason.find("cannot open shared object file") == std::string::npos)
        out.why = reason;
      continue;
    }
    auto entry = reinterpret_cast<LlvmEntry>(dlsym(library, kLlvmEntry));
    if (entry == nullptr) {
      out.why = path + " has no " + kLlvmEntry;
      continue;
    }
    out.table = entry();
    return out;
  }
  return out;
}

}  // namespace

const LlvmInterface* llvm_module(std::string* why) {
  static const Loaded loaded = load();
  if (why != nullptr) *why = loaded.why;
  return loaded.table;
}

const LlvmInterface& require_llvm_module() {
  std::string why;
  const LlvmInterface* table = llvm_module(&why);
  if (table == nullptr)
    throw DeviceError("CPU", "the LLVM module cannot be loaded")
        .note(why)
        .help("LATHE_CPU=c uses the system's C compiler instead");
  return *table;
}

}  // namespace lathe::backends
