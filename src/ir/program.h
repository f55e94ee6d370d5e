// A program: one kernel as a list of instructions in execution order, ready to print. Renderers walk `code`
// and print each node; they decide nothing. docs/ir.md, "Program", defines which nodes a program may contain
// and what they mean.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/node.h"

namespace lathe {

// One buffer argument of a kernel.
struct ProgramParam {
  std::int64_t slot = 0;
  DType dtype;
  std::int64_t size = 0;  // elements
  bool reads = false, writes = false;
};

// An index that is checked when the kernel runs: the op that asked, and what it must be below.
struct ProgramCheck {
  std::string op;
  std::int64_t size = -1;  // -1 where that depends on variables
  bool operator==(const ProgramCheck&) const = default;
};
// The op of checks that no user's op asked for: accesses that could not be proved to stay inside.
inline constexpr std::string_view kUnprovedAccess = "access";
// What the fault cell holds: the number of a check, from 1, above the low bits of the index that was outside.
inline constexpr int kFaultIndexBits = 48;
inline constexpr std::int64_t kFaultIndexMask = (std::int64_t{1} << kFaultIndexBits) - 1;

struct Program {
  std::string name;                  // a C identifier
  std::vector<NodeRef> code;         // instructions; constants and params are operands only
  std::vector<ProgramParam> params;  // by slot, in argument order
  std::vector<NodeRef> variables;    // Var nodes, in argument order after the params
  // Launch sizes as index expressions over constants and variables; null means 1.
  std::array<NodeRef, 3> groups, locals;
  NodeRef threads;  // parts of a CPU launch (Special "t"); null means 1
  std::int64_t shared_bytes = 0;
  // Where there are any, the last param is the fault cell: one int64 that a failed check writes.
  std::vector<ProgramCheck> checks;
  // Counted on the kernel as scheduled: arithmetic operations, and bytes every param must move at least once.
  double flops = 0, bytes = 0;
};

// The params that are buffers of the computation.
inline std::span<const ProgramParam> buffer_params(const Program& program) {
  return std::span(program.params).first(program.params.size() - (program.checks.empty() ? 0 : 1));
}

}  // namespace lathe
