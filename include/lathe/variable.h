// Symbolic sizes. A Variable is a named integer with a range; it can be used in shapes, slices and
// arithmetic, and a kernel compiled for it works for every value of the range. A Size is a plain integer or
// an expression over variables.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct SizeExpr;  // an index expression of the graph

class Size {
 public:
  constexpr Size() = default;
  template <std::integral T>
  constexpr Size(T value) : value_(static_cast<std::int64_t>(value)) {}  // NOLINT: a number is a size
  explicit Size(std::shared_ptr<const SizeExpr> expr);

  bool is_symbolic() const { return expr_ != nullptr; }
  // The integer; throws UserError if the size is symbolic.
  std::int64_t value() const;
  operator std::int64_t() const { return value(); }  // NOLINT
  // The integer for the variables' bound values; throws UserError if one is not bound.
  std::int64_t bound_value() const;
  std::int64_t max() const;  // an upper bound
  std::string str() const;
  const std::shared_ptr<const SizeExpr>& expr() const { return expr_; }

 private:
  std::int64_t value_ = 0;
  std::shared_ptr<const SizeExpr> expr_;
};

bool operator==(const Size& a, const Size& b);
Size operator+(const Size& a, const Size& b);
Size operator-(const Size& a, const Size& b);
Size operator*(const Size& a, const Size& b);
Size operator/(const Size& a, const Size& b);  // rounds down
Size operator%(const Size& a, const Size& b);  // takes the divisor's sign
template <std::integral T>
bool operator==(const Size& a, T b) {
  return a == Size(b);
}
template <std::integral T>
Size operator+(const Size& a, T b) {
  return a + Size(b);
}
template <std::integral T>
Size operator-(const Size& a, T b) {
  return a - Size(b);
}
template <std::integral T>
Size operator*(const Size& a, T b) {
  return a * Size(b);
}
template <std::integral T>
Size operator/(const Size& a, T b) {
  return a / Size(b);
}
template <std::integral T>
Size operator%(const Size& a, T b) {
  return a % Size(b);
}
template <std::integral T>
Size operator+(T a, const Size& b) {
  return Size(a) + b;
}
template <std::integral T>
Size operator-(T a, const Size& b) {
  return Size(a) - b;
}
template <std::integral T>
Size operator*(T a, const Size& b) {
  return Size(a) * b;
}
template <std::integral T>
Size operator/(T a, const Size& b) {
  return Size(a) / b;
}
template <std::integral T>
Size operator%(T a, const Size& b) {
  return Size(a) % b;
}

using Shape = std::vector<Size>;
std::string to_string(const Shape& shape);  // "(2, 3)"

// A list of integers, or a single one: an axis or axes, a stride or strides.
class Ints {
 public:
  Ints() = default;
  template <std::integral T>
  Ints(T value) : values_{static_cast<std::int64_t>(value)} {}  // NOLINT
  Ints(std::initializer_list<std::int64_t> values) : values_(values) {}
  Ints(std::vector<std::int64_t> values) : values_(std::move(values)) {}  // NOLINT

  const std::vector<std::int64_t>& values() const { return values_; }
  bool empty() const { return values_.empty(); }
  std::size_t size() const { return values_.size(); }
  std::int64_t operator[](std::size_t i) const { return values_[i]; }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::vector<std::int64_t> values_;
};

class Variable {
 public:
  // min and max are inclusive.
  Variable(std::string_view name, std::int64_t min, std::int64_t max);

  const std::string& name() const { return name_; }
  std::int64_t min() const { return min_; }
  std::int64_t max() const { return max_; }

  // The variable bound to a value for the next realize; throws UserError outside the range.

  Size bind(std::int64_t value) const;
  // The variable without a value.
  Size size() const;
  operator Size() const { return size(); }  // NOLINT

 private:
  std::string name_;
  std::int64_t min_, max_;
};

}  // namespace lathe
