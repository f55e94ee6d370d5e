// REF: evaluates every form of the IR straight from its meaning (docs/ir.md), and is the answer all devices
// are compared with. It shares nothing with rewriting or printing. While it runs it looks for accesses out of
// bounds, reads of elements nothing wrote, conflicting accesses of iterations that have no order, and
// barriers that some threads miss; what it finds is in the report. Everything that has no order runs in an
// order drawn from the seed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/node.h"
#include "ir/program.h"
#include "reference/array.h"

namespace lathe::reference {

// Values of variables, by name.
using Bindings = std::vector<std::pair<std::string, std::int64_t>>;

struct EvalOptions {
  std::uint64_t seed = 1;
  double max_ops = 2e8;      // scalar operations; beyond it only a sample of the output positions is computed
  bool wide_floats = false;  // of kernels: floats are computed in float64 and rounded when they are stored
};

struct EvalReport {
  std::vector<std::string> faults;
  bool index_fault = false;                // an index that the user's data named is outside
  bool sampled = false;                    // only some positions were computed: `written` says which
  bool incomplete = false;                 // too long even for a sample of two: nothing was computed
  double ops = 0;                          // about how many scalar operations ran
  std::vector<std::vector<bool>> written;  // by slot, of params the kernel writes, where sampled
  bool ok() const { return faults.empty() && !incomplete; }
};

// Runs a kernel (a Sink over Params) on memory, by slot. Written params are changed in place.
EvalReport kernel_eval(Node kernel, std::span<const View> params, const Bindings& bindings = {},
                       const EvalOptions& options = {});

// Runs a program. The launch sizes are those of the program under the bindings.
EvalReport program_eval(const Program& program, std::span<const View> params, const Bindings& bindings = {},
                        const EvalOptions& options = {});

}  // namespace lathe::reference
