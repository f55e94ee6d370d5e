// Rules on kernels as scheduled: reduces that join, collapse or vanish, and gates that move into loads.
#pragma once

#include "ir/node.h"
#include "rewrite/rewriter.h"

namespace lathe {

RuleTable kernel_algebra();

// All tables there are, in the order in which a kernel's rewriting tries them.
std::vector<RuleTable> all_tables();

// A kernel with index algebra and kernel rules applied.
Node simplify_kernel(Node kernel, const RuleChanges& changes);

// Neighbouring ranges that every index walks as one are made one: r0*E1 + r1 becomes r.
Node merge_ranges(Node kernel);

// A range that indices divide evenly becomes two: r/s and r%s become ranges of their own.
Node split_ranges(Node kernel, const RuleChanges& changes);

}  // namespace lathe
