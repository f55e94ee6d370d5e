// The rule "rebuilt-weights": attention's gradients need its weights and the weights' gradients, values as
// large as the scores and larger than all inputs. Both are functions of the scores, which are products of the
// inputs, and of two numbers per row: the maximum score and the total. So the forward pass stores only these
// two numbers, and every kernel that sums over such a value recomputes it, a tile at a time
// (running_maximum.h).
//
//   p = exp2((s - max) * c) * (1 / total)      ds = p * (dO V^T - D)
//   dV = sum_i p * dO     dQ = sum_j ds * K     dK = sum_i ds * Q
//
// It applies if everything computed from the weights ends in sums of products and storing them is expensive
// (cost.h), but not if anything else, such as the caller or the gradient of a bias, needs one of these
// values.
#pragma once

#include <span>

#include "ir/node.h"
#include "ir/walk.h"
#include "schedule/running_maximum.h"

namespace lathe {

inline constexpr const char* kRebuiltWeightsRule = "rebuilt-weights";

struct RebuiltWeights {
  NodeMap<char> never_stored;  // computed in each kernel that needs them
  NodeMap<char> kept;          // of a row: stored by whoever computes them
  NodeMap<SoftmaxSum> folds;   // reduces that are computed a tile at a time

  bool empty() const { return folds.size() == 0; }
};

// Those of a prepared graph. Nodes that are `forced` into memory are no part of any; weights smaller than
// `bytes` are not worth it. `on_unit`: only where all sums are made of numbers of 16 bits, which a matrix
// unit multiplies.
RebuiltWeights find_rebuilt_weights(std::span<const Node> order, const NodeMap<char>& forced, double bytes,
                                    bool on_unit);

}  // namespace lathe
