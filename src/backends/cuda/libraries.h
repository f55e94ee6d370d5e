// Finding and loading NVIDIA's libraries at run time. Each is looked for in: the folder LATHE_CUDA_PATH
// names, the toolkit's folders, the environment that scripts/setup.sh makes, the active Python environment,
// the loader's path.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe::backends {

// A library that stays loaded for the life of the process.
struct LoadedLibrary {
  void* handle = nullptr;
  std::string path;                // as it was found; the bare name where the loader knew it
  std::vector<std::string> tried;  // where it was looked for, if it was not found
};

// Folders that may hold the toolkit's libraries, in order of preference; they need not exist.
std::vector<std::string> cuda_library_folders();

// `names` are file names, newest version first.
LoadedLibrary load_cuda_library(const std::vector<std::string>& names);

// The address of a function, or null.
void* symbol(const LoadedLibrary& library, const char* name);

}  // namespace lathe::backends
