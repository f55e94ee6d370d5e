// Every op case over dtypes, shapes and views, on the device named by OPS_DEVICE (CPU if not set), against
// REF on the tensor graph. OPS_SAMPLE=n takes a seeded n-th of the rows. All variants of a row are realized
// together, so that devices with slow compilers get them in one unit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/hash.h"
#include "cases.h"
#include "engine/engine.h"
#include "ir/build.h"
#include "ir/shape.h"
#include "ir/walk.h"
#include "reference/tensor_eval.h"
#include "runtime/registry.h"
#include "tensor/impl.h"

namespace lathe::test {
namespace {

std::string setting(const char* name, const char* fallback) {
  const char* v = std::getenv(name);
  return v != nullptr ? v : fallback;
}
std::string device() { return setting("OPS_DEVICE", "CPU"); }

enum class Layout { Plain, Transposed, Flipped, Sliced };

class Inputs : public Maker {
 public:
  Inputs(DataType dtype, Layout layout, std::string dev)
      : dtype_(dtype), layout_(layout), device_(std::move(dev)) {}

  Tensor operator()(const Shape& shape, double low, double high) override {
    Tensor t = make(shape, low, high);
    inputs.push_back(t);
    return t;
  }
  Tensor index(const Shape& shape, std::int64_t low, std::int64_t high) override {
    std::vector<std::int32_t> v(count(shape));
    for (auto& x : v)
      x = static_cast<std::int32_t>(
          low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low)));
    return Tensor(v, shape, {dtypes::int32, device_});
  }

  std::vector<Tensor> inputs;

 private:
  std::uint64_t next() { return hash_all(seed_++, std::uint64_t{0x9e37}); }
  static std::size_t count(const Shape& shape) {
    std::size_t n = 1;
    for (const Size& s : shape) n *= static_cast<std::size_t>(s.bound_value());
    return n;
  }
  Tensor values(const Shape& shape, double low, double high) {
    std::vector<double> v(count(shape));
    for (double& x : v) {
      double u = static_cast<double>(next() >> 11) * 0x1p-53;
      x = low + u * (high - low);
      if (!dtype_.is_float()) x = std::floor(x + 0.5);
    }
    if (dtype_.is_unsigned())
      for (double& x : v) x = std::fabs(x);
    return Tensor(v, shape, {dtypes::float64, device_}).cast(dtype_).realize();
  }
  Tensor make(const Shape& shape, double low, double high) {
    if (shape.empty() || layout_ == Layout::Plain) return values(shape, low, high);
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

  DataType dtype_;
  Layout layout_;
  std::string device_;
  std::uint64_t seed_ = 1;
};

// Enough for rounding at every step of a case's graph; integers and bool must be equal.
double tolerance(DataType d) {
  if (!d.is_float()) return 0;
  if (d == dtypes::float64) return 1e-9;
  if (d == dtypes::float32) return 3e-5;
  if (d == dtypes::float16) return 2e-2;
  if (d == dtypes::bfloat16) return 1e-1;
  return 6e-1;  // 8-bit floats
}

struct Wanted {
  Tensor value;
  std::string what;
  DataType compared;
};

std::vector<Shape> shapes_of(const Case& c) {
  using S = Case::Shapes;
  if (c.shapes == S::Own) return {Shape{}};
  if (c.shapes == S::Ranked) return {{1}, {7}, {3, 5}, {2, 3, 4}, {13, 17}, {4, 130}};
  std::vector<Shape> all = {{}, {1}, {7}, {3, 5}, {2, 3, 4}, {13, 17}, {2, 130}};
  if (c.shapes != S::NotEmpty) all.push_back({0, 3});
  return all;
}

std::vector<DataType> dtypes_of(const Case& c) {
  std::vector<DataType> out;
  for (DataType d : dtypes::all()) {
    bool small = d.is_float() && d.itemsize() == 1;
    // The fnuz forms differ only in conversion, which tests of casts cover exhaustively.
    if (small && !(d == dtypes::fp8e4m3)) continue;
    char kind = d.is_float() ? 'f' : d.is_bool() ? 'b' : 'i';
    if (c.kinds.find(kind) != std::string::npos) out.push_back(d);
  }
  return out;
}

class Ops : public testing::TestWithParam<std::size_t> {};

void add_wanted(const Case& c, DataType d, const Shape& shape, Layout layout, std::vector<Wanted>& all) {
  Inputs make(d, layout, device());
  std::string what = c.name + " " + std::string(d.name()) + " " + to_string(shape) + " layout " +
                     std::to_string(static_cast<int>(layout));
  Tensor value = c.build(make, shape);
  all.push_back({value, what, value.dtype()});
  if (!c.differentiable || !d.is_float() || d.itemsize() < 2 || !value.dtype().is_float()) return;
  std::vector<Tensor> grads = (value * value).sum().gradient(make.inputs);
  for (std::size_t i = 0; i < grads.size(); ++i)
    all.push_back({grads[i], what + " gradient " + std::to_string(i), d});
}

// Inputs are on the device; REF evaluates over the same buffers, read back.
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

TEST_P(Ops, EqualTheReference) {
  const Case& c = cases()[GetParam()];
  std::vector<Wanted> all;
  for (DataType d : dtypes_of(c)) {
    for (const Shape& shape : shapes_of(c)) add_wanted(c, d, shape, Layout::Plain, all);
    for (Layout layout : {Layout::Transposed, Layout::Flipped, Layout::Sliced})
      if (c.shapes != Case::Shapes::Own && d.itemsize() == 4) add_wanted(c, d, {3, 5}, layout, all);
  }
  std::vector<Tensor> tensors;
  std::vector<NodeRef> graphs;
  for (Wanted& w : all) {
    graphs.emplace_back(node_of(w.value));
    w.value = w.value.contiguous();
    tensors.push_back(w.value);
  }
  Tensor::realize_all(std::span<const Tensor>(tensors));
  Scope scope;
  std::vector<Node> nodes(graphs.begin(), graphs.end());
  std::vector<reference::TensorValue> want = on_reference(nodes);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<double> got = tensors[i].tolist();
    std::vector<double> expected = want[i].data.numbers();
    ASSERT_EQ(got.size(), expected.size()) << all[i].what;
    // 16-bit values round at every step, so what cancels is compared on the scale of what it was made from.
    double tol = tolerance(all[i].compared), scale = 0, least = all[i].compared.itemsize() <= 2 ? 0.3 : 1e-2;
    for (double v : expected)
      if (std::isfinite(v)) scale = std::max(scale, std::fabs(v));
    for (std::size_t k = 0; k < got.size(); ++k) {
      bool same = got[k] == expected[k] || (std::isnan(got[k]) && std::isnan(expected[k]));
      bool close = std::fabs(got[k] - expected[k]) <=
                   tol * std::max(std::fabs(expected[k]), std::max(scale * 0.1, least));
      ASSERT_TRUE(same || close) << all[i].what << " at " << k << ": got " << got[k] << ", REF has "
                                 << expected[k] << "\n  repeat with OPS_DEVICE=" << device()
                                 << " --gtest_filter='*" << c.name << "'";
    }
  }
}

// Gradients against differences, in double: what REF cannot tell is whether the derivative itself is right.
TEST_P(Ops, GradientsMatchDifferences) {
  const Case& c = cases()[GetParam()];
  if (!c.differentiable || c.name.starts_with("long_") || c.name == "matmul_big") return;
  Shape shape = c.shapes == Case::Shapes::Own ? Shape{} : Shape{2, 3};
  Inputs make(dtypes::float64, Layout::Plain, device());
  Tensor value = c.build(make, shape);
  if (value.dtype() == dtypes::float16) return;  // the case itself rounds to half
  std::vector<Tensor> grads = (value * value).sum().gradient(make.inputs);
  const double step = value.dtype() == dtypes::float32 ? 1e-2 : 1e-5;
  for (std::size_t i = 0; i < make.inputs.size(); ++i) {
    std::vector<double> g = grads[i].tolist(), base = make.inputs[i].tolist();
    // A few elements are enough: first, last, middle.
    for (std::size_t k : {std::size_t{0}, base.size() / 2, base.size() - 1}) {
      double at[2];
      for (int side = 0; side < 2; ++side) {
        struct Moved : Inputs {
          Moved(std::string d, std::size_t i, std::size_t k, double by)
              : Inputs(dtypes::float64, Layout::Plain, std::move(d)), i_(i), k_(k), by_(by) {}
          Tensor operator()(const Shape& s, double low, double high) override {
            Tensor t = Inputs::operator()(s, low, high);
            if (inputs.size() - 1 != i_) return t;
            std::vector<double> v = t.tolist();
            v[k_] += by_;
            return Tensor(v, s, {dtypes::float64, t.device()});
          }
          std::size_t i_, k_;
          double by_;
        } moved(device(), i, k, side == 0 ? -step : step);
        Tensor v = c.build(moved, shape);
        at[side] = (v * v).cast(dtypes::float64).sum().item<double>();
      }
      double numeric = (at[1] - at[0]) / (2 * step);
      double tol = value.dtype() == dtypes::float32 ? 5e-2 : 2e-4;
      EXPECT_NEAR(g[k], numeric, tol * std::max(1.0, std::fabs(numeric)))
          << c.name << " input " << i << " element " << k;
    }
  }
}

std::vector<std::size_t> chosen() {
  auto n = static_cast<std::uint64_t>(std::max(1, std::atoi(setting("OPS_SAMPLE", "1").c_str())));
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < cases().size(); ++i)
    if (hash_string(cases()[i].name) % n == 0) out.push_back(i);
  return out;
}

std::string label(const testing::TestParamInfo<std::size_t>& info) {
  std::string out = cases()[info.param].name;
  for (char& ch : out)
    if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, Ops, testing::ValuesIn(chosen()), label);

}  // namespace
}  // namespace lathe::test
