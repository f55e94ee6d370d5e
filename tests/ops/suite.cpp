#include "suite.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/hash.h"
#include "engine/engine.h"
#include "ir/shape.h"
#include "ir/walk.h"
#include "tensor/impl.h"

namespace lathe::test {
namespace {

std::size_t count_of(const Shape& shape) {
  std::size_t n = 1;
  for (const Size& s : shape) n *= static_cast<std::size_t>(s.bound_value());
  return n;
}

// The values at the edges of a dtype. Floats: NaN, infinities, zeros, limits, subnormals, halfway cases;
// integers: their extremes and the neighbours.
std::vector<Element> edges_of(DataType dtype) {
  std::vector<Element> out;
  if (dtype.is_bool()) return {Element{0, 0}, Element{1, 0}};
  if (dtype.is_float()) {
    dtypes::FloatInfo f = dtypes::finfo(dtype);
    const double inf = std::numeric_limits<double>::infinity();
    const double least = std::ldexp(f.smallest_normal, -f.mantissa_bits);
    for (double v : {std::nan(""), inf, -inf, 0.0, -0.0, 1.0, -1.0, f.max, -f.max, f.smallest_normal,
                     -f.smallest_normal, least, -least, 0.5, 2.5, -1.5, 3.0, 1 + f.eps})
      out.push_back(convert(DType(dtype.scalar), dtypes::Float64, Element{0, v}));
    return out;
  }
  DType d(dtype.scalar);
  auto high = static_cast<std::uint64_t>(d.max_int());
  if (dtype.is_unsigned() && dtype.bitsize() == 64) high = ~std::uint64_t{0};
  for (std::uint64_t v :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{7}, high, high - 1, high / 2})
    out.push_back({static_cast<std::int64_t>(v), 0});
  if (!dtype.is_unsigned())
    for (std::int64_t v : {std::int64_t{-1}, std::int64_t{-3}, d.min_int(), d.min_int() + 1})
      out.push_back({v, 0});
  return out;
}

// Every pair of edges once: as two operands of shape (k, k), or as the rows of one of shape (k * k, 2).
Shape pairs(DataType dtype) {
  auto k = static_cast<std::int64_t>(edges_of(dtype).size());
  return {k, k};
}
Shape rows_of_pairs(DataType dtype) {
  auto k = static_cast<std::int64_t>(edges_of(dtype).size());
  return {k * k, 2};
}

std::vector<Shape> shapes_of(const Case& c) {
  using S = Case::Shapes;
  if (c.shapes == S::Own) return {Shape{}};
  if (c.shapes == S::Ranked) return {{1}, {7}, {3, 5}, {2, 3, 4}, {13, 17}, {4, 130}};
  std::vector<Shape> all = {{}, {1}, {7}, {3, 5}, {2, 3, 4}, {13, 17}, {2, 130}};
  if (c.shapes != S::NotEmpty) all.push_back({0, 3});
  return all;
}

// Whether the case is tried on the dtype; `lifted` where only one shape is.
bool takes(const Case& c, DataType d, bool& lifted) {
  // The other 8-bit floats differ only in conversion, which tests of casts cover exhaustively.
  if (d.is_float() && d.itemsize() == 1 && !(d == dtypes::fp8e4m3)) return false;
  char kind = d.is_float() ? 'f' : d.is_bool() ? 'b' : 'i';
  lifted = !d.is_float() && c.kinds.find('l') != std::string::npos;
  return lifted || c.kinds.find(kind) != std::string::npos;
}

// Enough for rounding at every step of a case's graph; integers and bool must be equal.
double tolerance(DataType d) {
  if (d == dtypes::float64) return 1e-9;
  if (d == dtypes::float32) return 3e-5;
  if (d == dtypes::float16) return 2e-2;
  if (d == dtypes::bfloat16) return 1e-1;
  return 6e-1;  // 8-bit floats
}

struct Compared {
  DataType dtype;
  const Case& of;
  bool special;
  bool alike;
  double scale = 0;  // the largest finite value that was expected
};

bool close(const Compared& how, double got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (got == want)
    return !how.special || want != 0 || how.of.any_zero || std::signbit(got) == std::signbit(want);
  double tol = tolerance(how.dtype);
  if (how.special) {
    // Values of very different sizes stand side by side, so each is compared on its own scale, down to the
    // last few subnormal numbers.
    dtypes::FloatInfo f = dtypes::finfo(how.dtype);
    if (std::isinf(want) && std::isfinite(got) && how.of.fused) return true;
    if (std::isinf(want) || std::isinf(got)) {
      // The greatest number and infinity are one rounding apart.
      double finite = std::isinf(want) ? got : want, infinite = std::isinf(want) ? want : got;
      return (finite > 0) == (infinite > 0) && std::fabs(finite) >= f.max * (1 - tol);
    }
    return std::fabs(got - want) <= tol * std::fabs(want) + f.smallest_normal * f.eps * 4;
  }
  // 16-bit values round at every step, so what cancels is compared on the scale of what it was made from.
  // So is what comes of operands that are all the same.
  double least = how.alike ? 1 : how.dtype.itemsize() <= 2 ? 0.3 : 1e-2;
  return std::fabs(got - want) <= tol * std::max({std::fabs(want), how.scale * 0.1, least});
}

reference::Array array_of(DataType dtype, const std::vector<std::byte>& bytes) {
  reference::Array out(DType(dtype.scalar), static_cast<std::int64_t>(bytes.size()) / dtype.itemsize());
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// The first element that differs, in words.
std::string compare(const Wanted& w, const reference::Array& got, const reference::Array& want) {
  if (got.size() != want.size())
    return fmt::format("{}: got {} elements, REF has {}", w.what, got.size(), want.size());
  DataType dtype = w.value.dtype();
  Compared how{dtype, *w.of, w.special, w.alike};
  if (dtype.is_float())
    for (double v : want.numbers())
      if (std::isfinite(v)) how.scale = std::max(how.scale, std::fabs(v));
  for (std::int64_t k = 0; k < got.size(); ++k) {
    bool same = dtype.is_float() ? close(how, got.number(k), want.number(k)) : got.at(k).i == want.at(k).i;
    if (same) continue;
    std::string g = dtype.is_float() ? fmt::format("{:.17g}", got.number(k)) : fmt::format("{}", got.at(k).i);
    std::string r =
        dtype.is_float() ? fmt::format("{:.17g}", want.number(k)) : fmt::format("{}", want.at(k).i);
    return fmt::format("{} at {}: got {}, REF has {}", w.what, k, g, r);
  }
  return "";
}

}  // namespace

std::uint64_t Inputs::next() { return hash_all(seed_++, std::uint64_t{0x9e37}); }

Tensor Inputs::operator()(const Shape& shape, double low, double high) {
  // At even sizes the first operand alone is of the kind; symbolic sizes do not meet plain ones.
  const bool plain =
      ++made_ > 1 && layout_ > Layout::Special && layout_ != Layout::Symbolic && count_of(shape) % 2 == 0;
  if (plain || shape.empty() || layout_ == Layout::Plain) return made_of(values(shape, low, high));
  if (layout_ == Layout::Special) return made_of(specials(shape));
  return layout_ < Layout::Special ? made_of(view(shape, low, high)) : made(shape, low, high);
}

Tensor Inputs::made_of(const Tensor& base) {
  inputs.push_back(base);
  return base;
}

Tensor Inputs::index(const Shape& shape, std::int64_t low, std::int64_t high) {
  std::vector<std::int32_t> v(count_of(shape));
  for (auto& x : v)
    x = static_cast<std::int32_t>(low +
                                  static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low)));
  return Tensor(v, shape, {dtypes::int32, device_});
}

Tensor Inputs::values(const Shape& shape, double low, double high) {
  std::vector<double> v(count_of(shape));
  for (double& x : v) {
    double u = static_cast<double>(next() >> 11) * 0x1p-53;
    x = low + u * (high - low);
    if (!dtype_.is_float()) x = std::floor(x + 0.5);
  }
  if (dtype_.is_unsigned())
    for (double& x : v) x = std::fabs(x);
  return Tensor(v, shape, {dtypes::float64, device_}).cast(dtype_).realize();
}

// The first operand walks the edges by rows, the second by columns, so that together they see every pair.
Tensor Inputs::specials(const Shape& shape) {
  std::vector<Element> edges = edges_of(dtype_);
  const std::size_t k = edges.size(), n = count_of(shape), operand = inputs.size();
  const bool as_rows = shape.size() == 2 && shape[1].bound_value() == 2 && n == 2 * k * k;
  reference::Array out(DType(dtype_.scalar), static_cast<std::int64_t>(n));
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pair = as_rows ? i / 2 : i;
    bool second = as_rows ? i % 2 == 1 : operand % 2 == 1;
    std::size_t at = second ? pair % k : pair / k % k;
    if (operand >= 2) at = (pair % k + 5 * operand + pair / k) % k;
    out.set(static_cast<std::int64_t>(i), edges[at]);
  }
  return Tensor::from_bytes(out.data(), out.byte_count(), shape, dtype_, device_);
}

Tensor Inputs::view(const Shape& shape, double low, double high) {
  auto last = static_cast<std::int64_t>(shape.size()) - 1;
  Shape other = shape;
  switch (layout_) {
    case Layout::Transposed:
      std::swap(other.front(), other.back());
      return values(other, low, high).transpose(0, last);
    case Layout::Flipped: return values(shape, low, high).flip({0});
    default: {
      other.back() = Size(other.back().bound_value() + 3);
      std::vector<std::pair<Size, Size>> cut;
      for (const Size& s : shape) cut.emplace_back(Size(0), s);
      cut.back() = {Size(2), Size(shape.back().bound_value() + 2)};
      return values(other, low, high).shrink(cut);
    }
  }
}

// What the input is made of is remembered, so that gradients come back through what made it.
Tensor Inputs::made(const Shape& shape, double low, double high) {
  const std::int64_t first = shape[0].bound_value(), last = shape.back().bound_value();
  double between = low + 0.5 * (high - low);
  if (!dtype_.is_float()) between = std::floor(between + 0.5);
  if (dtype_.is_unsigned()) between = std::fabs(between);
  Shape other = shape;
  switch (layout_) {
    case Layout::Constant: return Tensor::full(shape, between, options());
    case Layout::Expanded: other.back() = 1; return made_of(values(other, low, high)).expand(shape);
    case Layout::Stepped:
      other.back() = 2 * last;
      return made_of(values(other, low, high)).getitem({kEllipsis, Slice{{}, {}, -2}});
    case Layout::Padded: {
      if (last < 2) return made_of(values(shape, low, high)) + 0;
      other.back() = last - 1;
      std::vector<std::pair<Size, Size>> padding(shape.size(), {0, 0});
      padding.back() = {1, 0};
      return made_of(values(other, low, high)).pad(padding, between);
    }
    case Layout::Gathered: {
      other[0] = first + 2;
      Tensor base = made_of(values(other, low, high));
      return base.getitem({index({Size(first)}, 0, first + 2)});
    }
    case Layout::Reduced: {  // stays between low and high
      other.insert(other.begin(), 2);
      Tensor base = made_of(values(other, low, high));
      return dtype_.is_float() ? (base * 0.5).sum(0) : base.max(0);
    }
    default: {
      other[0] = first + 3;
      const Variable n("n" + std::to_string(first), 1, first + 3);
      std::vector<std::pair<Size, Size>> cut;
      for (const Size& s : shape) cut.emplace_back(Size(0), s);
      cut[0].second = n.bind(first);
      return made_of(values(other, low, high)).shrink(cut);
    }
  }
}

std::string Variant::str() const {
  static constexpr const char* kNames[] = {"",         " transposed", " flipped",  " sliced",
                                           " special", " constant",   " expanded", " stepped",
                                           " padded",  " gathered",   " reduced",  " symbolic"};
  return fmt::format("{} {} {}{}", of->name, dtype.name(), to_string(shape),
                     kNames[static_cast<std::size_t>(layout)]);
}

std::vector<Variant> variants_of(const Case& c) {
  std::vector<Variant> out;
  bool lifted = false;
  for (DataType d : dtypes::all()) {
    if (!takes(c, d, lifted)) continue;
    if (lifted && c.shapes != Case::Shapes::Own) {
      out.push_back({&c, d, {3, 5}, Layout::Plain});
      continue;
    }
    for (const Shape& shape : shapes_of(c)) out.push_back({&c, d, shape, Layout::Plain});
    for (Layout layout : {Layout::Transposed, Layout::Flipped, Layout::Sliced})
      if (c.shapes != Case::Shapes::Own && d.itemsize() == 4) out.push_back({&c, d, {3, 5}, layout});
  }
  return out;
}

std::vector<Variant> special_variants_of(const Case& c) {
  std::vector<Variant> out;
  if (c.shapes == Case::Shapes::Own) return out;
  bool lifted = false;
  for (DataType d : dtypes::all())
    if (takes(c, d, lifted))
      out.push_back({&c, d, c.shapes == Case::Shapes::Ranked ? rows_of_pairs(d) : pairs(d), Layout::Special});
  return out;
}

std::vector<Variant> kind_variants_of(const Case& c) {
  constexpr std::int64_t kMost = 19, kSizes = 3;
  std::vector<Variant> out;
  if (c.random || c.name.starts_with("long_")) return out;  // REF adds those up one by one
  for (DataType d : {dtypes::float32, dtypes::int32, dtypes::bool_}) {
    bool lifted = false;
    if (!takes(c, d, lifted) || lifted) continue;
    for (Layout kind :
         {Layout::Transposed, Layout::Flipped, Layout::Constant, Layout::Expanded, Layout::Stepped,
          Layout::Padded, Layout::Gathered, Layout::Reduced, Layout::Symbolic}) {
      if (c.shapes == Case::Shapes::Own) {
        if (kind != Layout::Symbolic) out.push_back({&c, d, {}, kind});
        continue;
      }
      // Other sizes for each case and kind; over all of them every size is met by every kind.
      std::uint64_t seed = hash_string(c.name + std::to_string(static_cast<int>(kind)));
      for (std::int64_t k = 0; k < kSizes; ++k) {
        seed = hash_all(seed, static_cast<std::uint64_t>(k));
        const std::int64_t n = 1 + static_cast<std::int64_t>(seed % kMost);
        const std::int64_t m = 1 + static_cast<std::int64_t>(seed / kMost % kMost);
        out.push_back({&c, d, k == 0 ? Shape{n} : Shape{n, m}, kind});
      }
    }
  }
  return out;
}

bool chosen(const Variant& variant, std::uint64_t n) { return n <= 1 || hash_string(variant.str()) % n == 0; }

std::uint64_t sample_size(std::uint64_t fallback) {
  const char* v = std::getenv("OPS_SAMPLE");
  return v == nullptr ? fallback : static_cast<std::uint64_t>(std::max(1, std::atoi(v)));
}

std::string device_under_test() {
  const char* v = std::getenv("OPS_DEVICE");
  return v == nullptr ? "CPU" : v;
}

void add_wanted(const Variant& variant, const std::string& device, std::vector<Wanted>& all) {
  const Case& c = *variant.of;
  DataType d = variant.dtype;
  Inputs make(d, variant.layout, device);
  std::string what = variant.str();
  bool special = variant.layout == Layout::Special;
  if (c.random) Tensor::manual_seed(7);
  const Tensor value = c.build(make, variant.shape);
  const bool alike = variant.layout == Layout::Constant || variant.layout == Layout::Expanded;
  all.push_back({value, what, &c, special, alike});
  if (special || make.inputs.empty() || !c.differentiable || !d.is_float() || d.itemsize() < 2 ||
      !value.dtype().is_float())
    return;
  const Tensor squares = value * value;
  std::vector<Tensor> grads = (c.normalized ? squares * value : squares).sum().gradient(make.inputs);
  for (std::size_t i = 0; i < grads.size(); ++i)
    all.push_back({grads[i], fmt::format("{} gradient {}", what, i), &c, false, alike});
}

std::vector<reference::TensorValue> on_reference(const std::vector<Node>& nodes) {
  reference::BufferContents contents;
  for (Node n : toposort(nodes)) {
    if (!n.is(Op::Buffer)) continue;
    reference::Array a(n.dtype(), buffer_size(n));
    if (a.byte_count() > 0) engine::buffer_to_host(n, a.data(), a.byte_count());
    contents[n] = std::move(a);
  }
  return reference::tensor_eval(nodes, contents);
}

std::string first_difference(std::vector<Wanted>& all) {
  std::vector<Tensor> tensors;
  std::vector<NodeRef> graphs;
  for (Wanted& w : all) {
    graphs.emplace_back(node_of(w.value));
    w.value = w.value.contiguous();
    tensors.push_back(w.value);
  }
  Scope scope;
  std::vector<Node> nodes(graphs.begin(), graphs.end());
  // REF reads buffers before the device runs: a case may write into them.
  std::vector<reference::TensorValue> want = on_reference(nodes);
  Tensor::realize_all(std::span<const Tensor>(tensors));
  for (std::size_t i = 0; i < all.size(); ++i)
    if (std::string text = compare(all[i], array_of(all[i].value.dtype(), tensors[i].bytes()), want[i].data);
        !text.empty())
      return text;
  return "";
}

bool same_bits(DataType dtype, const std::vector<std::byte>& x, const std::vector<std::byte>& y) {
  if (x == y) return true;
  if (x.size() != y.size() || !dtype.is_float()) return false;
  reference::Array a = array_of(dtype, x), b = array_of(dtype, y);
  const auto width = static_cast<std::size_t>(dtype.itemsize());
  for (std::int64_t i = 0; i < a.size(); ++i) {
    std::size_t at = static_cast<std::size_t>(i) * width;
    if (std::memcmp(x.data() + at, y.data() + at, width) == 0) continue;
    if (!std::isnan(a.number(i)) || !std::isnan(b.number(i))) return false;
  }
  return true;
}

}  // namespace lathe::test
