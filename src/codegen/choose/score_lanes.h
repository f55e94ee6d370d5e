// Attention's scores: each step of a row's loop is the dot product of the row with one key. With lanes along
// the sum, every score needs a horizontal sum and is then scaled, masked and stored as a scalar. With lanes
// along the keys all of this is done in vectors, once the keys are contiguous in a panel. All rows share the
// panel, so with many rows filling it costs little.
//
//   before   i: { t: s[t] = sum d: Q[i, d] * K[t, d];  ... s ... }
//   after    PK[d, t] = K[t, d];  i: { t by lanes: s[t] = sum d: Q[i, d] * PK[d, t];  ... s ... }
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/choose/kernel_facts.h"
#include "target/target.h"

namespace lathe {

struct ScoreLanes {
  struct Product {
    std::size_t keys;  // its loop
    Node factor;       // what the keys move, for the panel
  };
  std::vector<Product> products;  // one in attention, two in its gradients
  std::int64_t width;             // how much of each loop becomes lanes
  std::size_t rows;               // the output range that shares the panels

  bool has_loop(std::size_t r) const {
    return std::any_of(products.begin(), products.end(), [r](const Product& p) { return p.keys == r; });
  }
};

// `together` rows are worked on at once.
std::optional<ScoreLanes> choose_score_lanes(Node kernel, const KernelFacts& facts, const Target& target,
                                             std::int64_t together);

}  // namespace lathe
