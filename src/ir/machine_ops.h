// Ops for single instructions of some machines, which take several ops elsewhere. Lowering steps use them if
// a fact of the target allows it.
#pragma once

#include <cstdint>
#include <span>

#include "ir/node.h"

namespace lathe {

// Float32 as bfloat16 the way units round their sums: to nearest even, numbers below the smallest normal one
// taken for zero.
Node narrow(Node x);
// The number at a place in a list, for each lane; places are counted modulo the list's length.
Node table(DType element, std::span<const std::int64_t> numbers, Node index);
// x - k and x * 2^k, where k is the integer next to x or n, of two the even one. The product is rounded once;
// where n is infinite it is 0 or infinity, whatever x is.
Node fraction(Node x);
Node scale(Node x, Node n);

}  // namespace lathe
