// Fragments in a program, for matrix units used by a single thread (ir/dot.h). Shared by the steps that move
// their loads and stores.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "ir/walk.h"

namespace lathe {

// A matrix of words, or of sums, row by row in the lanes of one vector.
struct Fragment {
  int rows = 0, columns = 0;
  int lanes() const { return rows * columns; }
  std::int64_t bytes() const { return std::int64_t{4} * rows * columns; }
  bool operator==(const Fragment&) const = default;
};

bool is_fragment_product(Node node);
bool has_fragment_products(const Program& program);
// The fragments that products take, by what holds each: a load, of neighbours or of rows (ir/access.h).
NodeMap<Fragment> factor_fragments(const Program& program);
// The shape of the sums, where all products have the same; else no rows.
Fragment sum_fragment(const Program& program);

// The loops around the loads of some products, where there are two at least: those of one sum.
struct FragmentSum {
  Node loop, around, outside;     // that adds products up, the one around it, and the next one or null
  std::vector<Node> again, once;  // loads, by whether the next step of `around` reads the same
};
std::vector<FragmentSum> fragment_sums(const Program& program, const NodeMap<Fragment>& fragments);

// An index as a place and a constant distance from it.
struct SplitIndex {
  Node place;
  std::int64_t distance = 0;
};
SplitIndex split_index(Node index);

}  // namespace lathe
