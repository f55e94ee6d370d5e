// Options only change an OptionState; then the kernel is rewritten once over the final ranges.
//
//   kernel   End(Store(out, m, Reduce(Add, Load(x, m*7 + k), k)), m)       UNROLL(0, 4) on k of extent 7
//   becomes  k = k0*4 + k1, k0 < 2, k1 < 4, gate = k < 7
//            End(Store(out, m, Reduce(Add, Load(x, m*7 + k, gate), k0, k1)), m)
//
// After an uneven split, an index past the end must have no effect. Stores get the gate. A reduce's element
// becomes the neutral value, which it already is for sums of products of gated loads. Loads either get the
// gate or read the last element again (and the value is dropped). The latter keeps masks out of inner loops;
// it is used for output ranges along which nothing is contiguous, so that it splits no vector load.
#pragma once

#include <vector>

#include "codegen/options/option_state.h"
#include "ir/node.h"
#include "rewrite/rewriter.h"

namespace lathe {

struct OptionRanges {
  Node kernel;
  std::vector<Node> staged;  // what each value that STAGE names has become
  std::vector<RangePlace> places;
};
OptionRanges option_ranges(const OptionState& state, const RuleChanges& changes);

}  // namespace lathe
