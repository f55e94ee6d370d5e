// Values that belong to rows: for each of t values of a batch the number of the row it goes to. Rows are
// combined either by comparing every value with every row, or, where that is much, by sorting the row numbers
// once: each row then combines its own list in order, without atomics, so results do not depend on timing.
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
  bool sorted() const { return lists_.has_value(); }

 private:
  struct Lists {
    Tensor row, order, begin, end;  // flat over the batch
  };
  Tensor hits() const;  // (batch, rows, t) bool

  Tensor index_;
  Size rows_;
  std::optional<Lists> lists_;
};

// What the gradient of a Take gives its x, and that of a RaggedReduce.
Node take_gradient(Node g, Node out);
Node ragged_gradient(Node g, Node out);

}  // namespace lathe
