#include "tools/lathe/scratch_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

namespace lathe::tool {

namespace fs = std::filesystem;

std::string scratch_path(std::string_view what) {
  const std::string parent = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string();
  return fmt::format("{}/lathe-bench-{}-{}", parent, what, getpid());
}

ScratchFolder::ScratchFolder(std::string_view what) : path_(scratch_path(what)) {
  fs::create_directories(path_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace lathe::tool
