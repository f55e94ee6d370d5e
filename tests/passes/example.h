// An example of one step as a text file, tests/passes/<step>/<name>.lathe:
//
//   # why it is here
//   target x86-64-v3
//   options UNROLL(0, 8)
//   in
//   the graph: a tensor graph for steps of scheduling, a kernel as scheduled for those of options, what the
//   step gets for those of lowering; for steps from program to program a kernel as scheduled or a program
//   out
//   the graph or program after the step, or: unchanged
#pragma once

#include <string>
#include <string_view>

namespace lathe::test {

struct Example {
  std::string about;  // lines that begin with #
  std::string target, options, in, out;
};
Example parse_example(const std::string& text);
std::string print_example(const Example& example);

// What the step makes of the example's graph.
std::string after_step(std::string_view step, const Example& example);

inline constexpr const char* kUnchanged = "unchanged\n";

}  // namespace lathe::test
