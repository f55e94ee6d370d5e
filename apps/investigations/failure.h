// What a failure looks like: the line of output that says what is wrong, the name or file that is missing,
// the tests that failed. Read by tables of patterns of the tools people use; without what differs from run to
// run, it is the signature by which failures are told apart and found again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/investigations/scenario.h"

namespace lathe::investigations {

struct Failure {
  std::string error;  // "NameError: name 'nn' is not defined"
  std::string
      likeness;  // how it ended, and the error without numbers, addresses, folders and compared values
  std::string signature;  // that and the file it came from: what it is found by again
};
// `roots` are folders whose names do not matter.
Failure failure_of(const Outcome& outcome, const std::vector<std::string>& roots);
// A text as it is compared: no addresses, times, numbers of lines, folders.
std::string without_noise(const std::string& text, const std::vector<std::string>& roots = {});

struct Missing {
  enum class Kind { Name, Module, File, Command } kind = Kind::Name;
  std::string name;
  std::string file;  // where it is wanted, as the tool printed it; empty if it did not say
  int line = 0;
};
std::optional<Missing> missing_of(const std::string& output);

// Places "file:line" of the output, the innermost last.
struct Place {
  std::string file;
  int line = 0;
};
std::vector<Place> places_of(const std::string& output);

// Tests that failed, by the runner's name for them, and the command that runs one alone.
struct FailedTest {
  std::string name;
  std::vector<std::string> command;
};
std::vector<FailedTest> failed_tests(const std::string& output, const std::vector<std::string>& command);

}  // namespace lathe::investigations
