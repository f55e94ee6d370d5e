// A command of a user, run as often as an investigation needs it: in a process group of its own, with a
// time limit after which all of it is ended, and what it printed kept.
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
