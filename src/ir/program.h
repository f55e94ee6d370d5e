// A program: one kernel as a list of instructions in execution order, ready to print. Renderers walk `code`
// and print each node; they decide nothing. What may stand in it, and what each node means there, is
// docs/ir.md, "Program".
#pragma once

#include <array>
#include <cstdint>
#include <string>
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

struct Program {
  std::string name;                  // a C identifier
  std::vector<NodeRef> code;         // instructions; constants and params are operands only
  std::vector<ProgramParam> params;  // by slot, in argument order
  std::vector<NodeRef> variables;    // Var nodes, in argument order after the params
  // Launch sizes as index expressions over constants and variables; null means 1.
  std::array<NodeRef, 3> groups, locals;
  NodeRef threads;  // parts of a CPU launch (Special "t"); null means 1
  std::int64_t shared_bytes = 0;
  // Counted on the kernel as scheduled: arithmetic operations, and bytes every param must move at least once.
  double flops = 0, bytes = 0;
};

}  // namespace lathe
