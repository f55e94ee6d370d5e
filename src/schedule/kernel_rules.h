// Rules on scheduled kernels: they join, collapse and remove reduces, and move gates into loads.
#pragma once

#include "ir/node.h"
#include "rewrite/rewriter.h"

namespace lathe {

RuleTable kernel_algebra();

// All tables there are, in the order in which a kernel's rewriting tries them.
std::vector<RuleTable> all_tables();

// A kernel with index algebra and kernel rules applied.
Node simplify_kernel(Node kernel, const RuleChanges& changes);

// Merges neighbouring ranges that every index combines in the same way: r0*E1 + r1 becomes r.
Node merge_ranges(Node kernel);

// A range that indices divide evenly becomes two: r/s and r%s become ranges of their own.
Node split_ranges(Node kernel, const RuleChanges& changes);

}  // namespace lathe
