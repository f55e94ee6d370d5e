#include "backends/cuda/libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/env.h"

namespace lathe::backends {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> sorted_entries(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    out.push_back(at->path().string());
  std::sort(out.begin(), out.end());
  return out;
}

// NVIDIA's Python packages put libraries in lib/pythonX.Y/site-packages/nvidia/<product>/lib.
void add_python_folders(std::vector<std::string>& out, const fs::path& environment) {
  for (const std::string& python : sorted_entries(environment / "lib"))
    for (const std::string& product : sorted_entries(fs::path(python) / "site-packages" / "nvidia"))
      out.push_back(product + "/lib");
}

void add_toolkit_folders(std::vector<std::string>& out, const fs::path& root) {
  for (const char* below : {"lib64", "lib", "targets/x86_64-linux/lib"})
    out.push_back((root / below).string());
}

// NVRTC opens its built-ins by bare name; loaded globally by full path first, that name is already known.
void load_companions(const fs::path& library) {
  for (const std::string& entry : sorted_entries(library.parent_path())) {
    std::string name = fs::path(entry).filename().string();
    if (name.starts_with("libnvrtc-builtins.so") && library.filename().string().starts_with("libnvrtc.so"))
      dlopen(entry.c_str(), RTLD_NOW | RTLD_GLOBAL);
  }
}

}  // namespace

std::vector<std::string> cuda_library_folders() {
  std::vector<std::string> out;
  if (const std::string& own = flag_text(Flag::CudaPath); !own.empty()) {
    out.push_back(own);
    add_toolkit_folders(out, own);
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(variable); root != nullptr && *root != '\0')
      add_toolkit_folders(out, root);
  add_toolkit_folders(out, "/usr/local/cuda");
  add_python_folders(out, ".venv-cuda");
  add_python_folders(out, LATHE_CUDA_ENVIRONMENT);
  if (const char* active = std::getenv("VIRTUAL_ENV"); active != nullptr && *active != '\0')
    add_python_folders(out, active);
  return out;
}

LoadedLibrary load_cuda_library(const std::vector<std::string>& names) {
  LoadedLibrary out;
  for (const std::string& folder : cuda_library_folders())
    for (const std::string& name : names) {
      std::error_code error;
      std::string path = (fs::absolute(folder, error) / name).string();
      if (!fs::exists(path, error)) continue;
      load_companions(path);
      out.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (out.handle != nullptr) {
        out.path = path;
        return out;
      }
    }
  for (const std::string& name : names)
    if ((out.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) != nullptr) {
      out.path = name;
      return out;
    }
  out.tried = cuda_library_folders();
  return out;
}

void* symbol(const LoadedLibrary& library, const char* name) {
  return library.handle == nullptr ? nullptr : dlsym(library.handle, name);
}

}  // namespace lathe::backends
