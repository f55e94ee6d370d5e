// An index expression as a sum: constant + sum of coefficient * term, terms distinct and no sums or constant
// multiples themselves. The form in which division, modulo and comparison are decided.
#pragma once

#include <cstdint>

#include "base/small_vector.h"
#include "ir/node.h"

namespace lathe {

struct Term {
  Node node;
  std::int64_t coefficient;
  Node product{};  // coefficient * node where such a node was met, so that it need not be made again
};

struct Linear {
  std::int64_t constant = 0;
  SmallVector<Term, 8> terms;  // in order of structural key

  void add(Node node, std::int64_t coefficient = 1);  // splits sums and constant multiples
  void add_term(Node node, std::int64_t coefficient, Node product = Node());
  std::int64_t lo() const;  // bounds of the whole, saturated
  std::int64_t hi() const;
  Node build() const;  // left-deep, terms in order, constant last
};

Linear linear(Node node);

// Whether a sum is what Linear::build would make of it.
bool is_normal_sum(Node node);

// The largest number known to divide an index; 0 for the constant 0, which everything divides.
std::int64_t known_divisor(Node index);
// Whether an index, perhaps already of machine integers, is proved to be a multiple of n by its form.
bool is_multiple(Node index, std::int64_t n);

}  // namespace lathe
