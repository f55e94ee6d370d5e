// Sine and cosine for every finite argument, however large, by one straight line of arithmetic: the argument
// is reduced with as many bits of 2/pi as its exponent needs (Payne and Hanek's method), in integers.
#pragma once

#include "ir/node.h"

namespace lathe {

// `op` is Sin or Cos, x is float32 or float64.
Node decompose_trig(Op op, Node x, bool fma);

}  // namespace lathe
