// The rule "running-maximum": a sum weighted by a softmax over the same axis needs the maximum and the total
// before its first term, three passes in all. Carried as (maximum, scaled total, scaled sum) and rescaled
// whenever the maximum grows, the three are one pass, a tile of the axis at a time.
//
//   sum_j e_j / (sum_k e_k) * v_j, e_j = exp2((s_j - max_k s_k) * c)
//   each tile: M = max s;  m' = max(m, M);  ms = m' is -inf ? 0 : m';  p = exp2((s - ms) * c)
//              a = exp2((m - ms) * c);  l' = l*a + sum p;  o' = o*a + sum p*v             at the end: o / l
//
// `ms` keeps a tile that is wholly masked from making NaN; a row that is wholly masked still ends as 0 / 0.
#pragma once

#include <cstdint>
#include <optional>

#include "base/small_vector.h"
#include "ir/node.h"
#include "ir/walk.h"

namespace lathe {

inline constexpr const char* kRunningMaximumRule = "running-maximum";

// The parts of such a sum in the tensor graph.
struct SoftmaxSum {
  Node scores;                     // s
  std::int64_t axis = 0;           // the axis of `scores` that is summed over
  Node scale;                      // c, or null
  std::size_t side = 0;            // which operand of the product the weights are
  SmallVector<Node, 8> movements;  // from that operand down to the weights
  SmallVector<DType, 2> casts;     // of the weights, innermost first
};

// `uses` counts the users of each node: nothing else may need what would no longer be computed.
std::optional<SoftmaxSum> match_softmax_sum(Node reduce, const NodeMap<int>& uses);

// How many steps of an axis of this extent are one tile; on a matrix unit of a group, with sums for so many
// outputs of a row in registers.
std::int64_t fold_tile(Node extent);
std::int64_t unit_fold_tile(std::int64_t outputs);

// What the fold is made of, in kernel form.
struct RunningMaximum {
  Node scores;  // at `fill`
  Node values;  // v, at `term`
  Node tile;    // the fold's range
  Node fill;    // a Loop over the tile, in which scores (and then weights) are computed into panels
  Node weigh;   // another, for the weights
  Node largest, total, term;     // Reduce ranges over the tile
  SmallVector<Node, 8> outside;  // ranges around the fold
  Node scale;
  SmallVector<DType, 2> casts;
  // Whether every instruction for a score counts: scores are scaled when they become weights, by the
  // multiplication that is there anyway, and the maximum is taken from them in the same step.
  bool scales_late = false;
};

// The weighted sum. Its two panels take the ids `panel` and `panel` + 1.
Node running_maximum(const RunningMaximum& parts, std::int64_t panel);

}  // namespace lathe
