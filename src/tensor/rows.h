// Values that belong to rows: for each of t values of a batch the number of the row it goes to. Where a
// thread walks them well (CPUs), it combines each value with its row in turn. Elsewhere rows are combined
// either by comparing every value with every row, or, where that is much, by sorting the row numbers once:
// each row then combines its own list in order. All without atomics, so results do not depend on timing.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/node.h"
#include "lathe/tensor.h"

namespace lathe {

class Rows {
 public:
  // `index` is (batch, t), integers: numbers of `rows` rows; numbers outside belong to no row. `width` is how
  // many values stand beside each other in a row, to weigh which way is cheaper.
  Rows(const Tensor& index, const Size& rows, double width);

  // (batch, t, rest...) combined to (batch, rows, rest...); rows without values get the unit of the op.
  Tensor reduce(Op op, const Tensor& values) const;
  Tensor count() const;  // (batch, rows) int32: values of each row
  Tensor last()
      const;  // (batch, rows) int32: the last value of each row, counted from 1; 0 where there is none

 private:
  struct Lists {
    Tensor row, order, begin, end;  // flat over the batch
  };
  Tensor hits() const;  // (batch, rows, t) bool
  Tensor walked(Op op, const Tensor& values) const;

  Tensor index_;
  Size rows_;
  bool walks_ = false;
  std::optional<Lists> lists_;
};

// What the gradients of a Take, a RaggedReduce and a Scatter give their x.
Node take_gradient(Node g, Node out);
Node ragged_gradient(Node g, Node out);
Node scatter_gradient(Node g, Node out);

}  // namespace lathe
