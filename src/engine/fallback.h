// Replaces a kernel that differs from REF. The kernel is made again without each heuristic rule that may be
// the cause, one at a time, then with only the rules without which it is too slow, then without any option.
// The first version that agrees with REF is used, and one warning names the kernel, its options and a file
// that shows the difference. If none agrees, an InternalError is thrown and there is no result.
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
