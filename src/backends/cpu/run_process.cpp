#include "backends/cpu/run_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"

extern char** environ;

namespace lathe::backends {

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  std::filesystem::path base = std::filesystem::temp_directory_path(error);
  path_ = (error ? std::string("/tmp") : base.string()) + "/lathe-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr)
    throw DeviceError("CPU", fmt::format("no temporary folder: {}", std::strerror(errno)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a file that cannot be removed stays
  std::filesystem::remove_all(path_, ignored);
}

ProcessResult run_process(const std::vector<std::string>& command, const TemporaryFolder& folder) {
  std::string log = folder.path() + "/output.txt";
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  int error = posix_spawn(&child, command[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw DeviceError("CPU", fmt::format("cannot start {}: {}", command[0], std::strerror(error)));

  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      throw DeviceError("CPU", fmt::format("lost {}: {}", command[0], std::strerror(errno)));
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(log).value_or("")};
}

std::string find_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "/usr/bin:/bin";
  while (!rest.empty()) {
    std::size_t colon = rest.find(':');
    std::string candidate = rest.substr(0, colon) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0 && !std::filesystem::is_directory(candidate)) return candidate;
    rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
  }
  return "";
}

}  // namespace lathe::backends
