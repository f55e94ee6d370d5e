// What the tests of judging share: contents for kernels, and running them on REF.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "ir/build.h"
#include "ir/walk.h"
#include "reference/reference.h"

namespace lathe::test {

// Contents for the params of a kernel: floats of a normal distribution, integers small enough to be a length
// or an index.
inline std::vector<reference::Array> random_contents(Node kernel, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<reference::Array> arrays;
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Param)) continue;
    const auto slot = static_cast<std::size_t>(param_slot(n));
    if (arrays.size() <= slot) arrays.resize(slot + 1);
    std::vector<double> values(static_cast<std::size_t>(memory_size(n)));
    for (double& v : values)
      v = n.dtype().is_float()         ? normal(random)
          : n.dtype() == dtypes::Int32 ? static_cast<double>(random() % 7)
          : n.dtype().is_unsigned()    ? static_cast<double>(random() % 17)
                                       : static_cast<double>(random() % 17) - 8;
    arrays[slot] = reference::Array::of(n.dtype(), values);
  }
  return arrays;
}

inline std::vector<reference::View> views_of(std::vector<reference::Array>& arrays) {
  std::vector<reference::View> out;
  for (reference::Array& a : arrays) out.push_back(a.view());
  return out;
}

}  // namespace lathe::test
