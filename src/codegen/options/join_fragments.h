// TC on a unit of fragments: after the other options have split a kernel's ranges, sums over the ranges of a
// fragment become products of whole fragments.
//
//   before   m: n: Reduce(Add, Dot(x panel[m*k' + k], y panel[k*n' + n], 0), k)      one word at a time
//   after    sums = Dot(x fragment, y fragment, 0);  m: n: sums[m*n' + n]
#pragma once

#include "codegen/kernel/refusal.h"
#include "ir/node.h"
#include "rewrite/rewriter.h"
#include "target/matrix_units.h"
#include "target/target.h"

namespace lathe {

// Replaces sums over fragments that are contiguous in panels by products of fragments. The sums of a whole
// fragment are kept in its lanes and are written to private memory once, when they are complete. Refused if
// `wanted` and a factor is not staged that way.
OrRefusal<Node> join_fragments(Node kernel, const Target& target, bool wanted);

// Ids of the ranges of a fragment that threads share (ir/dot.h, ir/group_ops.h), or -1. In registers: words
// of a step, halves of 16 rows, columns of a pair, groups of 8 columns. Over threads: warps, rows and pairs.
struct FragmentRanges {
  const MatrixUnit* unit = nullptr;
  int k = -1, high = -1, low = -1, columns = -1;
  int warp = -1, group = -1, pair = -1;
};

// The same for a unit whose fragments are shared by the threads of one warp or four. Threads read words or
// matrices from panels that the group shares, or the unit reads the panels itself.
OrRefusal<Node> join_shares(Node kernel, const FragmentRanges& at, const RuleChanges& rules);

}  // namespace lathe
