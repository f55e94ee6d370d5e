#include "dev/fuzz_program.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lathe/error.h"

namespace lathe::dev {
namespace {

constexpr std::int64_t kMostElements = 6000;
// Numbers stay so small that float16 and sums of whole numbers are exact.
constexpr double kMost = 1000, kMostHalf = 200;

struct Value {
  Tensor tensor;
  double most = 0;  // of its absolute values
  bool exact = true;
};

bool is_float(const Tensor& t) { return t.dtype().is_float(); }
bool is_half(const Tensor& t) { return is_float(t) && t.dtype().itemsize() == 2; }

class Maker {
 public:
  Maker(std::uint64_t seed, std::string device) : random_(seed), device_(std::move(device)) {
    if (below(4) == 0) {
      rows_ = 2 + below(15);
      bound_ = Variable("n", 1, rows_).bind(1 + below(rows_));
    }
  }

  FuzzProgram make() {
    Value now = leaf({}, true);
    const std::int64_t steps = 3 + below(9);
    for (std::int64_t done = 0, tries = 0; done < steps && tries < 60; ++tries) {
      kept_.push_back(now);
      if (std::optional<Value> next = step(now)) {
        now = std::move(*next);
        ++done;
      }
    }
    return {now.tensor, now.exact, bound_.has_value(), text_};
  }

 private:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  template <class T, std::size_t N>
  T one_of(const T (&all)[N]) {
    return all[below(static_cast<std::int64_t>(N))];
  }

  // Of this shape, or of any; the first axis of a symbolic one is cut to the variable's value.
  Value leaf(std::vector<std::int64_t> sizes, bool cut) {
    constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 33};
    if (sizes.empty()) {
      std::int64_t all = 1;
      for (std::int64_t rank = 1 + below(3); rank > 0; --rank) {
        std::int64_t size = sizes.empty() && bound_ && cut ? rows_ : one_of(kSizes);
        if (all * size > kMostElements) size = 1;
        sizes.push_back(size);
        all *= size;
      }
    }
    std::int64_t count = 1;
    Shape shape;
    for (const std::int64_t size : sizes) count *= size, shape.emplace_back(size);
    std::vector<float> numbers;
    for (std::int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(below(9) - 4));
    const DataType all[] = {dtypes::float32, dtypes::float32, dtypes::float32,
                            dtypes::int32,   dtypes::float16, dtypes::bfloat16};
    Tensor made = Tensor(numbers, shape, {.dtype = one_of(all), .device = device_});
    text_ += fmt::format("leaf [{}] {}\n", fmt::join(sizes, ", "), made.dtype().name());
    if (bound_ && cut) made = made.getitem({Slice{0, *bound_}});
    return {made, 4, true};
  }

  static bool is_plain(const Tensor& t) {
    const Shape shape = t.shape();
    return std::ranges::none_of(shape, [](const Size& size) { return size.is_symbolic(); });
  }
  static std::vector<std::int64_t> sizes_of(const Tensor& t) {
    std::vector<std::int64_t> out;
    for (const Size& size : t.shape()) out.push_back(size.value());
    return out;
  }
  std::int64_t axis(const Tensor& t) { return below(std::max<std::int64_t>(t.ndim(), 1)); }

  // Something of the same shape, or of one that is broadcast to it.
  Value partner(const Value& to) {
    std::vector<Value> same;
    for (const Value& v : kept_)
      if (v.tensor.shape() == to.tensor.shape()) same.push_back(v);
    if (!same.empty() && (below(2) == 0 || !is_plain(to.tensor)))
      return same[static_cast<std::size_t>(below(static_cast<std::int64_t>(same.size())))];
    if (!is_plain(to.tensor) || to.tensor.ndim() == 0) return to;
    std::vector<std::int64_t> sizes = sizes_of(to.tensor);
    for (std::int64_t& size : sizes)
      if (below(4) == 0) size = 1;
    return leaf(sizes, false);
  }

  static double most_of(const Tensor& t) { return is_half(t) ? kMostHalf : kMost; }
  // The result of a step, unless its numbers would be too large for its dtype.
  std::optional<Value> gave(std::string_view name, Tensor tensor, double most, bool exact) {
    if (most > most_of(tensor)) return std::nullopt;
    text_ += fmt::format("{}\n", name);
    // What float16 and bfloat16 round is inexact.
    if (is_half(tensor) && most > (tensor.dtype() == dtypes::bfloat16 ? 128 : 1024)) exact = false;
    return Value{std::move(tensor), most, exact};
  }

  std::optional<Value> step(const Value& x) {
    try {
      const std::int64_t kind = below(10);
      if (kind < 3) return unary(x);
      if (kind < 6) return binary(x);
      if (kind < 7) return reduced(x);
      if (kind < 9) return moved(x);
      return contracted(x);
    } catch (const UserError&) {
      return std::nullopt;  // not everything is there for every dtype and for symbolic sizes
    }
  }

  std::optional<Value> unary(const Value& x) {
    const Tensor& t = x.tensor;
    switch (below(13)) {
      case 0: return gave("neg", -t, x.most, x.exact);
      case 1: return gave("abs", t.abs(), x.most, x.exact);
      case 2: return gave("relu", t.maximum(0), x.most, x.exact);
      case 3: return gave("square", t * t, x.most * x.most, x.exact);
      case 4: return gave("shifted", t * 2 - 3, 2 * x.most + 3, x.exact);
      case 5:
        if (!is_float(t) || !x.exact) return std::nullopt;
        return gave("floor of a half", (t * 0.5).floor(), x.most, true);
      case 6:
        if (!x.exact) return std::nullopt;
        return gave("cast to int32", t.cast(dtypes::int32), x.most, true);
      case 7: return gave("cast to float32", t.cast(dtypes::float32), x.most, x.exact);
      case 8: return gave("exp2", t.cast(dtypes::float32).clamp(-6, 6).exp2(), 64, false);
      case 9: return gave("sqrt", (t.cast(dtypes::float32).abs() + 1).sqrt(), x.most + 1, false);
      case 10: return gave("sigmoid", t.cast(dtypes::float32).sigmoid(), 1, false);
      case 11:
        if (!x.exact || is_float(t)) return std::nullopt;
        return gave("remainder", t % 5, 5, true);
      default: return gave("contiguous", t.contiguous(), x.most, x.exact);
    }
  }

  std::optional<Value> binary(const Value& x) {
    const Value y = partner(x);
    const Tensor &a = x.tensor, &b = y.tensor;
    const double larger = std::max(x.most, y.most);
    const bool exact = x.exact && y.exact;
    switch (below(7)) {
      case 0: return gave("add", a + b, x.most + y.most, exact);
      case 1: return gave("sub", a - b, x.most + y.most, exact);
      case 2: return gave("mul", a * b, x.most * y.most, exact);
      case 3: return gave("maximum", a.maximum(b), larger, exact);
      case 4: return gave("minimum", a.minimum(b), larger, exact);
      case 5:
        if (!exact) return std::nullopt;
        return gave("where less", (a < b).where(a, b + 1), larger + 1, true);
      default:
        return gave("div", a.cast(dtypes::float32) / (b.cast(dtypes::float32).abs() + 1), x.most, false);
    }
  }

  std::optional<Value> reduced(const Value& x) {
    const Tensor& t = x.tensor;
    if (t.ndim() == 0) return std::nullopt;
    const std::int64_t at = axis(t);
    const Size size = t.shape()[static_cast<std::size_t>(at)];
    const auto steps = static_cast<double>(size.is_symbolic() ? rows_ : size.value());
    switch (below(7)) {
      case 0:
      case 1: return gave("sum", t.sum({at}), steps * x.most, x.exact);
      case 2: return gave("sum, kept", t.sum({at}, true), steps * x.most, x.exact);
      case 3: return gave("max", t.max({at}), x.most, x.exact);
      case 4: return gave("mean", t.cast(dtypes::float32).mean({at}), x.most, false);
      case 5: return gave("softmax", t.cast(dtypes::float32).softmax(at), 1, false);
      default: return gave("cumsum", t.cumsum(at), steps * x.most, x.exact);
    }
  }

  std::optional<Value> moved(const Value& x) {
    const Tensor& t = x.tensor;
    if (t.ndim() == 0) return std::nullopt;
    const std::int64_t at = axis(t);
    const auto other = [&](std::string_view name, const Tensor& made) {
      return gave(name, made, x.most, x.exact);
    };
    if (t.ndim() > 1 && below(4) == 0) {
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < t.ndim(); ++i) order.push_back((i + 1) % t.ndim());
      return other("permute", t.permute(order));
    }
    if (!is_plain(t)) {
      const bool is_cut = t.shape()[static_cast<std::size_t>(at)].is_symbolic();
      return is_cut ? std::nullopt : other("flip", t.flip({at}));
    }
    const std::vector<std::int64_t> sizes = sizes_of(t);
    const std::int64_t size = sizes[static_cast<std::size_t>(at)];
    std::int64_t all = 1;
    for (const std::int64_t s : sizes) all *= s;
    std::vector<std::pair<Size, Size>> bounds;
    switch (below(9)) {
      case 0: return other("flip", t.flip({at}));
      case 1: return other("flatten", t.flatten());
      case 2:
        for (std::size_t i = 0; i < sizes.size(); ++i) bounds.emplace_back(below(3), below(3));
        if (all > kMostElements / 8) return std::nullopt;
        return other("pad", t.pad(bounds));
      case 3:
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          const bool cut = static_cast<std::int64_t>(i) == at && size > 1;
          bounds.emplace_back(cut ? 1 : 0, sizes[i]);
        }
        return other("shrink", t.shrink(bounds));
      case 4: {
        std::vector<Index> indices(static_cast<std::size_t>(at), Index(Slice{}));
        indices.emplace_back(Slice{{}, {}, 2});
        return other("every second", t.getitem(indices));
      }
      case 5: return other("roll", t.roll({1}, {at}));
      case 6:
        if (all * 2 > kMostElements) return std::nullopt;
        return other("cat", Tensor::cat({t, t.flip({at})}, at));
      case 7: {
        if (all * 3 > kMostElements || t.ndim() > 3) return std::nullopt;
        Shape shape = t.shape();
        shape.insert(shape.begin(), Size(3));
        return other("expand", t.unsqueeze(0).expand(shape));
      }
      default: {
        std::vector<std::int64_t> rows;
        for (std::int64_t i = 1 + below(5); i > 0; --i) rows.push_back(below(sizes[0]));
        return other("rows by number",
                     t.getitem({Tensor(rows, TensorOptions{.dtype = dtypes::int32, .device = device_})}));
      }
    }
  }

  // A product with a matrix of its own.
  std::optional<Value> contracted(const Value& x) {
    const Tensor& t = x.tensor;
    if (t.ndim() == 0 || t.shape().back().is_symbolic()) return std::nullopt;
    const std::int64_t steps = t.shape().back().value();
    constexpr std::int64_t kColumns[] = {1, 2, 3, 5, 8, 16, 17};
    const Value y = leaf({steps, one_of(kColumns)}, false);
    const bool halves = is_half(t) && is_half(y.tensor);
    return gave("matmul", t.cast(dtypes::float32).matmul(y.tensor.cast(dtypes::float32)),
                static_cast<double>(steps) * x.most * y.most, x.exact && !halves);
  }

  std::mt19937_64 random_;
  std::string device_, text_;
  std::int64_t rows_ = 0;
  std::optional<Size> bound_;
  std::vector<Value> kept_;
};

}  // namespace

FuzzProgram make_fuzz_program(std::uint64_t seed, const std::string& device) {
  return Maker(seed, device).make();
}

}  // namespace lathe::dev
