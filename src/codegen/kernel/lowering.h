// The state shared by the lowering passes of a kernel: the target, and facts beyond the graph that
// linearizing needs.
#pragma once

#include <array>
#include <vector>

#include "ir/node.h"
#include "ir/program.h"
#include "target/target.h"

namespace lathe {

// Sizes of the launch, as index expressions over constants and variables; null means 1.
struct Launch {
  std::array<Node, 3> groups, locals;
  Node threads;
};

struct Lowering {
  const Target& target;
  Launch launch;
  std::vector<ProgramCheck> checks{};
  bool invariant = false;
};

}  // namespace lathe
