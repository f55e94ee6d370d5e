#include "engine/store_elements.h"

#include <algorithm>
#include <numeric>

#include "ir/walk.h"
#include "rules/linear.h"

namespace lathe::engine {
namespace {

// Tries after which an element counts as reached. Where strides do not reach into each other, as in every
// store of a tensor's own elements, one for each of them is enough.
constexpr int kSteps = 1000;

// The value of an expression over variables alone.
std::optional<std::int64_t> fixed_value(Node expression, Bindings bindings) {
  const std::vector<Node> below = toposort(expression);
  const bool fixed = std::ranges::all_of(
      below, [](Node n) { return n.is_const() || n.is(Op::Var) || n.is(Op::Cast) || is_scalar_op(n.op()); });
  if (!fixed) return std::nullopt;
  return evaluate_index(expression, bindings);
}

}  // namespace

StoreElements::StoreElements(const reference::StoreAxes& store, Bindings bindings)
    : lo_(store.store.arg(1).lo()), hi_(store.store.arg(1).hi()), coefficients_(store.ranges.size()) {
  const Linear index = linear(store.store.arg(1));
  constant_ = index.constant;
  for (const Term& term : index.terms) {
    const auto range = std::ranges::find(store.ranges, term.node);
    if (range != store.ranges.end()) {
      coefficients_[static_cast<std::size_t>(range - store.ranges.begin())] += term.coefficient;
    } else if (const auto value = fixed_value(term.node, bindings)) {
      constant_ += term.coefficient * *value;
    } else {
      known_ = false;
      return;
    }
  }
  origin_ = constant_;
  for (std::size_t d = 0; d < coefficients_.size(); ++d) {
    const std::int64_t step = coefficients_[d], length = store.extents[d];
    if (step < 0) origin_ += step * (length - 1);
    if (step != 0) strides_.push_back({std::abs(step), length});
  }
  std::ranges::sort(strides_, std::ranges::greater(), &Stride::step);
  spans_.resize(strides_.size() + 1);
  divisors_.resize(strides_.size() + 1);
  for (std::size_t k = strides_.size(); k-- > 0;) {
    spans_[k] = spans_[k + 1] + strides_[k].step * (strides_[k].length - 1);
    divisors_[k] = std::gcd(divisors_[k + 1], strides_[k].step);
  }
}

std::optional<std::int64_t> StoreElements::at(std::span<const std::int64_t> position) const {
  if (!known_) return std::nullopt;
  std::int64_t element = constant_;
  for (std::size_t d = 0; d < position.size(); ++d) element += coefficients_[d] * position[d];
  return element;
}

bool StoreElements::may_reach(std::int64_t element) const {
  if (!known_) return lo_ <= element && element <= hi_;
  int steps_left = kSteps;
  return reaches(0, element - origin_, steps_left);
}

// Whether the strides from this one on add up to `rest`.
bool StoreElements::reaches(std::size_t k, std::int64_t rest, int& steps_left) const {
  if (rest < 0 || rest > spans_[k] || (divisors_[k] != 0 && rest % divisors_[k] != 0)) return false;
  if (k == strides_.size() || --steps_left < 0) return true;
  const auto [step, length] = strides_[k];
  const std::int64_t needed = rest - spans_[k + 1];  // of this stride, if all others are at their ends
  const std::int64_t first = needed <= 0 ? 0 : (needed + step - 1) / step;
  for (std::int64_t i = first; i <= std::min(length - 1, rest / step); ++i)
    if (reaches(k + 1, rest - i * step, steps_left)) return true;
  return false;
}

}  // namespace lathe::engine
