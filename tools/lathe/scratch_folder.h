// A folder of this process for what a benchmark hands to its children, in memory where the machine has such
// a place; gone with the object.
#pragma once

#include <string>
#include <string_view>

namespace lathe::tool {

std::string scratch_path(std::string_view what);

class ScratchFolder {
 public:
  explicit ScratchFolder(std::string_view what);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace lathe::tool
