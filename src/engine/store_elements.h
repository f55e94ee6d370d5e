// The elements that a store writes. If its index is a linear function of its ranges, it is decided exactly
// whether another store writes one of them, even if two stores interleave in one buffer. Of other indices
// only the bounds are known.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/kernels.h"
#include "reference/bounded.h"

namespace lathe::engine {

class StoreElements {
 public:
  StoreElements(const reference::StoreAxes& store, Bindings bindings);

  // The element at these values of its ranges; nothing where that is not known.
  std::optional<std::int64_t> at(std::span<const std::int64_t> position) const;
  // False where it is certain that no position has this element.
  bool may_reach(std::int64_t element) const;
  bool may_reach_elements_of(const StoreElements& other) const {
    return lo_ <= other.hi_ && other.lo_ <= hi_;
  }

 private:
  // A range by what it adds to the index: step * [0, length).
  struct Stride {
    std::int64_t step, length;
  };
  bool reaches(std::size_t stride, std::int64_t rest, int& steps_left) const;

  bool known_ = true;
  std::int64_t lo_, hi_;
  std::int64_t constant_ = 0;
  std::vector<std::int64_t> coefficients_;  // by range
  // The same with positive steps, longest first, counted from `origin_`; `spans_` and `divisors_` are of a
  // stride and all after it.
  std::int64_t origin_ = 0;
  std::vector<Stride> strides_;
  std::vector<std::int64_t> spans_, divisors_;
};

}  // namespace lathe::engine
