// The rule "running-maximum": a sum weighted by a softmax over the same axis takes three passes, because the
// maximum and the total are needed before the first term. If (maximum, scaled total, scaled sum) are carried
// along and rescaled whenever the maximum grows, one pass is enough, a tile of the axis at a time.
//
//   sum_j e_j / (sum_k e_k) * v_j, e_j = exp2((s_j - max_k s_k) * c)
//   each tile: M = max s;  m' = max(m, M);  ms = m' is -inf ? 0 : m';  p = exp2((s - ms) * c)
//              a = exp2((m - ms) * c);  l' = l*a + sum p;  o' = o*a + sum p*v             at the end: o / l
//
// `ms` prevents NaN from a fully masked tile; a fully masked row still ends as 0 / 0.
#pragma once

#include <cstdint>
#include <optional>

#include "base/small_vector.h"
#include "ir/node.h"
#include "ir/walk.h"

namespace lathe {

inline constexpr const char* kRunningMaximumRule = "running-maximum";

// A softmax in the tensor graph: exp2((s - max s) * c) / its sum, over one axis.
struct Softmax {
  Node weights;            // the whole of it
  Node scores;             // s
  std::int64_t axis = 0;   // of `scores`, and of the weights
  Node scale;              // c, or null
  Node power;              // exp2(..)
  Node total, reciprocal;  // the sum, and 1 over it or null
  Node largest;
};

// What a sum carried through one pass over tiles of its axis gives.
enum class FoldForm : std::uint8_t {
  Average,  // values weighted by a softmax over that axis
  Largest,  // the largest score
  Total,    // the softmax's sum
  Sum,      // values times a factor that is as large as a softmax's weights (rebuilt_weights.h)
};

// The parts of such a sum in the tensor graph.
struct SoftmaxSum {
  FoldForm form = FoldForm::Average;
  Softmax softmax;
  Node panel;                      // what a tile of is computed first: s, or the factor of a Sum
  std::size_t side = 0;            // which operand of the product is made of it
  SmallVector<Node, 8> movements;  // from that operand down to the weights or the factor
  SmallVector<DType, 2> casts;     // of them, innermost first
  std::int64_t outputs = 1;        // of a row, beside a Largest or a Total: of the Average that has them
};

// Whether `node` is the weights of a softmax. `uses` counts the users of each node: where given, nothing
// else than the weights may need what they are made of.
std::optional<Softmax> match_softmax(Node node, const NodeMap<int>* uses);

// A sum over the softmax's axis of its weights times values, with `uses` as above: nothing but the sum may
// need the weights.
std::optional<SoftmaxSum> match_softmax_sum(Node reduce, const NodeMap<int>* uses);

// What is below the movements and casts of one operand of the product that is summed up.
void follow_operand(SoftmaxSum& sum, Node operand);

// Which axis of a movement's operand an axis of its result is, as it is.
std::optional<std::size_t> axis_below(Node movement, std::size_t axis);

// How many steps of an axis of this extent are one tile; on a matrix unit of a group, with sums for so many
// outputs of a row in registers.
std::int64_t fold_tile(Node extent);
std::int64_t unit_fold_tile(FoldForm form, std::int64_t outputs);

// What the fold is made of, in kernel form.
struct RunningMaximum {
  FoldForm form = FoldForm::Average;
  Node scores;  // at `fill`; of a Sum its factor
  Node values;  // v, at `term`; of Average and Sum
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
  std::int64_t outputs = 0;  // on a matrix unit: of a row, for which sums are in registers
};

// The value of the fold. Its panels, two at most, take the ids `panel` and `panel` + 1.
Node running_maximum(const RunningMaximum& parts, std::int64_t panel);

}  // namespace lathe
