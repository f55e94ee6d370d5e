// A multiplication by a power of two, as codegen writes it for exp2: in two steps, because 2^n alone may be
// no normal number. Machines with an instruction for it do it in one, with the same result: the first step is
// exact, so both round once.
#pragma once

#include "ir/node.h"

namespace lathe::render {

struct Scaling {
  Node value;    // float32
  Node shifted;  // n + kRoundsToWhole, n whole and within [-151, 129]
};
inline constexpr float kRoundsToWhole = 0x1.8p23f;

// What `product` is where it is value * 2^n written as
//   (value * bits((e >> 1) << 23)) * bits((e - (e >> 1)) << 23),   e = bits(shifted) - bits(kRoundsToWhole) +
//   254;
// a null value where it is anything else.
Scaling scaling_of(Node product);

// The x of x - rint(x) as codegen writes it for exp2, with c = x within [-151, 129]:
//   c - ((c + kRoundsToWhole) - kRoundsToWhole);
// null where `difference` is anything else. Machines that have it in one step need no limits: beyond them
// the scaling gives 0 or infinity whatever the fraction.
Node whole_of_fraction(Node difference);
// The same of the scaling's n: the x it is nearest to.
Node scaled_by(const Scaling& scaling);

}  // namespace lathe::render
