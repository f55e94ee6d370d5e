// The rule "rebuilt-weights": attention's gradients need its weights and their own gradients again, values as
// large as the scores, larger than all inputs. They are functions of the scores, which are products of the
// inputs, and of two numbers a row: the largest score and the total. So the forward pass stores those two,
// and every kernel that sums such a value up computes it again, a tile at a time (running_maximum.h).
//
//   p = exp2((s - max) * c) * (1 / total)      ds = p * (dO V^T - D)
//   dV = sum_i p * dO     dQ = sum_j ds * K     dK = sum_i ds * Q
//
// It applies where all that is made of the weights ends in sums of products, and where storing them would be
// dear (cost.h); not where anything else, a caller or the gradient of a bias, wants one of those values.
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
// `bytes` are not worth it.
RebuiltWeights find_rebuilt_weights(std::span<const Node> order, const NodeMap<char>& forced, double bytes);

}  // namespace lathe
