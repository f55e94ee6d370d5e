// Movement ops as maps from positions of the result to positions of the operand.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/node.h"

namespace lathe::reference {

// One movement op with its sizes known. Places are row-major positions.
class MovementMap {
 public:
  MovementMap() = default;
  // `operands` are the values of the size operands after the first (of Reshape, Expand, Pad, Shrink, Skew,
  // Unskew).
  MovementMap(Node node, std::vector<std::int64_t> from, std::vector<std::int64_t> to,
              std::span<const std::int64_t> operands);

  // The operand's place for each of the result's places; -1 where the result is 0 instead. In and out may be
  // the same.
  void map(std::span<const std::int64_t> places, std::int64_t* out) const;

 private:
  std::int64_t one(std::int64_t place) const;

  Op op_ = Op::Reshape;
  bool same_ = true;                        // places do not change
  std::vector<std::int64_t> from_, to_;     // sizes of the operand and of the result
  std::vector<std::int64_t> axes_, shift_;  // what the op needs: an order, axes, or a distance per axis
};

std::int64_t product(std::span<const std::int64_t> sizes);

}  // namespace lathe::reference
