// Running another program without a shell, and a private folder for the files that takes.
#pragma once

#include <string>
#include <vector>

namespace lathe::backends {

// A folder only this user can read, removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct ProcessResult {
  int status = 0;      // exit status, or -1 where a signal ended it
  std::string output;  // standard output and error
};

// Runs command[0] with the rest as arguments and waits for it; throws DeviceError where it cannot be started.
ProcessResult run_process(const std::vector<std::string>& command, const TemporaryFolder& folder);

// Full path of a program, or empty.
std::string find_on_path(const std::string& name);

}  // namespace lathe::backends
