// JOIN: two ranges of a kernel become one, before any other option. Rows of a product that run over several
// ranges (the pixels of all images, the channels and positions of a window) can then be divided as one range.
//
//   before   y < 6, x < 10:  A[(y + 1)*12 + x]
//   after    p < 60:         A[(p/10 + 1)*12 + p%10]
#pragma once

#include "codegen/kernel/refusal.h"
#include "ir/node.h"
#include "lathe/options.h"
#include "rewrite/rewriter.h"

namespace lathe {

// The kernel over outer*extent(inner) + inner, at the place of `outer`.
OrRefusal<Node> join_ranges(Node kernel, Node outer, Node inner, const Opt& opt, const RuleChanges& rules);

}  // namespace lathe
