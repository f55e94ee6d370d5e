// The steps of a compile with what each makes of a kernel. Unstable: for tools.
#pragma once

#include <string>
#include <vector>

namespace lathe::dev {

struct CompileStep {
  std::string part, name, purpose;
  bool optional = false;   // LATHE_WITHOUT=name does without it
  bool shown = false;      // it was run on the kernel; those of scheduling are not
  bool changed = false;    // what it gave is not what it got
  std::string text;        // the kernel, or program, after it
  std::string difference;  // nodes that are gone, after "- ", and new ones, after "+ "
};

// All steps in order. Those from the kernel as scheduled on are run on the one in the file, with the options
// in it ("file"), the heuristic's ("default") or a list.
std::vector<CompileStep> inspect_steps(const std::string& path, const std::string& device,
                                       const std::string& options);

}  // namespace lathe::dev
