// Chooses the outputs that are compared when a kernel is checked: those where its options change the code.
// For a split of a range by 16 the code changes at every multiple of 16, so the samples include both sides of
// the first and the last such edge, the corners and some random positions. Small outputs are compared
// completely.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels.h"
#include "ir/node.h"
#include "ir/walk.h"
#include "lathe/options.h"
#include "reference/bounded.h"
#include "target/target.h"

namespace lathe::engine {

// For every range of the kernel, the sizes at whose multiples the options begin something new, ascending.
using SplitUnits = NodeMap<std::vector<std::int64_t>>;
SplitUnits split_units(Node kernel, std::span<const Opt> options, const Target& target, Bindings bindings);

// Those of the ranges whose length depends on variables, as far as they do not: ascending, all ranges
// together.
std::vector<std::int64_t> fixed_split_units(Node kernel, std::span<const Opt> options, const Target& target);

// Positions of all stores, those that tell most first, stores in turn. The seed chooses the random ones. Of
// several stores to one buffer only what no other writes over is among them.
std::vector<reference::Position> sample_positions(std::span<const reference::StoreAxes> stores,
                                                  const SplitUnits& units, Bindings bindings,
                                                  std::uint64_t seed);

}  // namespace lathe::engine
