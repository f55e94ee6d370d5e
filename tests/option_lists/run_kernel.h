// A kernel with any list of options on a device, on contents that are given: compiled, run, and its results
// read back. Memory around every buffer is looked at afterwards.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/node.h"
#include "lathe/options.h"
#include "reference/reference.h"
#include "runtime/devices.h"

namespace lathe::test {

struct RunResult {
  std::vector<reference::Array> after;  // by slot
  std::string fault;                    // what was written outside, or an index that was outside; else empty
};

// Throws what compiling and running throws.
RunResult run_kernel(Node kernel, std::span<const Opt> options, OpenDevice& device,
                     std::span<const reference::Array> before, const reference::Bindings& bindings);

}  // namespace lathe::test
