// Rounding a float to bfloat16, as codegen writes it in integers. Machines with an instruction for it count
// numbers below the smallest normal one as zero, so it serves where there are none: for the results of their
// products of bfloat16, which do the same.
#pragma once

#include "ir/program.h"
#include "ir/walk.h"

namespace lathe::render {

// The float32 that `code`, 16 bits, is the bfloat16 of; null where it is anything else.
Node rounded_to_bfloat16(Node code);

// Memory of a program's own: whether only results of bfloat16 products, and zeros, are written to it.
NodeMap<bool> holds_products(const Program& program);
// Whether a value is one, or read from such memory.
bool is_product(Node value, const NodeMap<bool>& memory);

}  // namespace lathe::render
