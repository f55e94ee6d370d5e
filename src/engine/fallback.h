// What happens to a kernel that differs from REF: it is made again with the heuristic rules that may be to
// blame disabled, one at a time, then all of them but those that lower the order of the work, then without
// any option. The first that agrees with REF replaces it. One warning names the kernel, its options and a
// file that shows the difference; where none agrees, that is an InternalError and there is no result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/kernels.h"
#include "engine/trial.h"
#include "lathe/options.h"
#include "target/target.h"

namespace lathe::engine {

struct Attempt {
  std::vector<Opt> options;
  std::string what;  // "without rule lanes"
};
// Other option lists for the kernel, those that cost least first; the last has no options.
std::vector<Attempt> attempts(const MadeKernel& wrong, const Target& target);

struct FallbackContext {
  bool whole = true;       // all positions are compared: nothing is left to look at without variables
  bool repeatable = true;  // false: what the launch wrote over was not kept
};

// The kernel that replaces this one; it has run. Under LATHE_CHECK=strict nothing does.
ReadyKernel fall_back(Trial& trial, const ReadyKernel& wrong, OpenDevice& device, const Outcome& outcome,
                      const FallbackContext& context);

}  // namespace lathe::engine
