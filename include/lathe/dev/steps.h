// The steps of a compile, with the kernel after each of them. Unstable: for tools.
#pragma once

#include <string>
#include <vector>

namespace lathe::dev {

struct CompileStep {
  std::string part, name, purpose;
  bool optional = false;   // LATHE_WITHOUT=name can disable it
  bool shown = false;      // it was run on this kernel; scheduling steps are not
  bool changed = false;    // its output differs from its input
  std::string text;        // the kernel, or program, after it
  std::string difference;  // removed nodes after "- ", new nodes after "+ "
};

// Lists all steps in order. The steps that follow scheduling are run on the kernel in the file, with the
// options in it ("file"), those of the heuristic ("default") or a list of options.
std::vector<CompileStep> inspect_steps(const std::string& path, const std::string& device,
                                       const std::string& options);

}  // namespace lathe::dev
