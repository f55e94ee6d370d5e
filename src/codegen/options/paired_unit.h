// TC on a tuple reduce with two products (schedule/running_maximum.h): the sums of the first product stay in
// registers and are the first factor of the second, on a matrix unit whose warpgroups share fragments and
// read the other factors from panels. The threads of a fragment divide every loop over a tile in the same
// way, so each has the same elements in all of them.
//
//   before   tile:  t: s[t] = Reduce(Add, Q*K, k);  u: p[u] = f(s[u])
//                   o[d] = o[d]*a + Reduce(Add, p[g]*V, g)
//   after    the same with k and g in words: Dot(Q, K), Dot(Pack(p[2g], p[2g + 1]), V)
#pragma once

#include "codegen/kernel/refusal.h"
#include "codegen/options/matrix_unit.h"
#include "ir/node.h"
#include "lathe/options.h"
#include "target/target.h"

namespace lathe {

// Whether a kernel has such a reduce: a Fold over panels of its own.
bool has_paired_products(Node kernel);

// The kernel after TC(axis, select, opt, use): `axis` is the position of the range along the outputs of the
// second product, `select` the row among those that hold all of them, narrowest first (-1: the first).
OrRefusal<UnitKernel> use_paired_unit(Node kernel, const Opt& opt, const Target& target,
                                      const RuleChanges& rules = kRulesAsWritten);

// Memory of a thread's own that is indexed by a range over threads holds only that thread's elements:
//
//   before   Define 128:  [c*8 + t*2 + l],  t < 4 over threads, l < 2
//   after    Define 32:   [c*2 + l]
Node share_panels(Node kernel);

}  // namespace lathe
