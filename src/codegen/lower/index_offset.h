// An index as a part that is computed and a constant that is added to it, as copies of a load have it.
#pragma once

#include <cstdint>

#include "ir/build.h"
#include "rules/linear.h"

namespace lathe {

inline bool divides(std::int64_t n, Node index) { return known_divisor(index) % n == 0; }

inline Node plus(Node index, std::int64_t c) {
  if (c == 0) return index;
  if (index.is(Op::Add) && index.arg(1).is_const())
    return index.arg(0) + index_const(index.arg(1).int_attr() + c);
  return index + splat(index_const(c), index.dtype().lanes);
}

inline Node before_offset(Node index) {
  return index.is(Op::Add) && index.arg(1).is_const() ? index.arg(0)
         : index.is_const()                           ? index_const(0)
                                                      : index;
}

inline std::int64_t offset_of(Node index) {
  return index.is(Op::Add) && index.arg(1).is_const() ? index.arg(1).int_attr()
         : index.is_const()                           ? index.int_attr()
                                                      : 0;
}

}  // namespace lathe
