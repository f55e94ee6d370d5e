// Runs a user's command for an investigation: in its own process group, with a time limit after which all its
// processes are killed. Its output is kept.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lathe::investigate {

using Variables = std::vector<std::pair<std::string, std::string>>;  // on top of this process's own

struct CommandRun {
  enum class End : std::uint8_t { Status, Signal, Hung, NotStarted } end = End::Status;
  int code = 0;        // the exit status, or the signal
  std::string output;  // of standard output
  std::string errors;  // the end of standard error
  bool ok() const { return end == End::Status && code == 0; }
  std::string text() const;  // "ended with status 1: the last line it printed"
};

CommandRun run_command(const std::vector<std::string>& command, const Variables& variables, double seconds);

}  // namespace lathe::investigate
