// Attention's scores: a loop of a row in which each step sums the products of the row with what only the step
// moves. Lanes along the sum would have to be added for every score, which then is scaled, masked and stored
// alone. With lanes along the keys nothing is left to do for a score by itself, once the keys lie side by
// side in a panel. All rows share that, so filling it costs little where there are many.
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
