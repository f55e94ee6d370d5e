// Interval arithmetic over nodes: the bounds every integer node carries. Sound for wrap-around: where the
// exact result may leave the dtype, the interval is the whole dtype.
#pragma once

#include <cstdint>
#include <span>

#include "ir/node.h"

namespace lathe {

struct Interval {
  std::int64_t lo, hi;
};

// Bounds of a node about to be made. Float and void nodes get {0, 0}.
Interval bounds_of(Op op, DType dtype, std::span<const Node> args, const Attr& attr);

}  // namespace lathe
