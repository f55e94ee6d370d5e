// The gradient of a softmax whose weights only weigh a sum, out_i = sum_j p_ij * v_j, as in attention. A
// softmax needs sum_j g_ij * p_ij of the weights' gradient g for every row; where that is made of the sum's
// own gradient, it is the product of that with the sum, summed up over a row of the output:
//
//   sum_j (sum_d go_id * v_jd) * p_ij = sum_d go_id * out_id
//
// which needs neither g nor p, so that both can be computed a piece at a time (schedule/rebuilt_weights.h).
//
// Where weights are rounded to 16 bits before they weigh, and scores are sums of products of such numbers,
// the gradient of the scores is rounded too before it is multiplied: all sums are then those of a matrix
// unit.
#pragma once

#include <optional>
#include <span>

#include "ir/node.h"
#include "ir/walk.h"
#include "schedule/running_maximum.h"

namespace lathe {

class SoftmaxSums {
 public:
  // Those of a graph that is differentiated.
  explicit SoftmaxSums(std::span<const Node> order);

  // Called where the gradient of a node is complete, users first.
  void sum_has_gradient(Node sum, Node g);

  struct Scores {
    Node node, gradient;
  };
  // What the gradient of weights becomes for their scores; none where they are no such weights.
  std::optional<Scores> scores_gradient(Node weights, Node g) const;

  // The gradient of a sum as what it is made of receives it: rounded where scores are made of the sum.
  Node rounded(Node sum, Node g) const;

 private:
  void find_products(Node scores, const NodeMap<int>& uses);

  NodeMap<SoftmaxSum> sums_;
  NodeMap<DType> products_;  // sums of products of numbers of so few bits that scores are made of
  struct Row {
    SoftmaxSum sum;
    Node products;  // over the row of the output, one number for each row of the weights
  };
  NodeMap<Row> rows_;  // by weights
};

}  // namespace lathe
