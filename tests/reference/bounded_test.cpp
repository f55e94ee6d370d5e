// REF with errors: its values are those of the kernel, and what it says about errors holds for REF's own
// evaluation in the kernel's dtypes, which rounds as a device does.
#include "reference/bounded.h"

#include <gtest/gtest.h>

#include "reference/helpers.h"
#include "reference/rounding.h"

namespace lathe::reference {
namespace {

Node global(std::int64_t extent, std::int64_t id) {
  return range(index_const(extent), id, RangeKind::Global);
}
Node reduce_over(std::int64_t extent, std::int64_t id) {
  return range(index_const(extent), id, RangeKind::Reduce);
}
Node c(std::int64_t v) { return index_const(v); }
Node kernel_of(Node memory, Node index, Node value, std::vector<Node> ranges, Node gate = Node()) {
  Node effect = end(store(memory, index, value, gate), ranges);
  return sink({&effect, 1});
}

// Every position of every store.
std::vector<Position> all_positions(Node kernel, const Bindings& bindings = {}) {
  std::vector<Position> out;
  const std::vector<StoreAxes> stores = store_axes(kernel, bindings);
  for (std::size_t k = 0; k < stores.size(); ++k) {
    std::int64_t total = 1;
    for (std::int64_t e : stores[k].extents) total *= e;
    for (std::int64_t i = 0; i < total; ++i) {
      Position p{k, std::vector<std::int64_t>(stores[k].extents.size())};
      std::int64_t rest = i;
      for (std::size_t d = p.at.size(); d-- > 0;) {
        p.at[d] = rest % stores[k].extents[d];
        rest /= stores[k].extents[d];
      }
      out.push_back(std::move(p));
    }
  }
  return out;
}

BoundedReport bounded(Node kernel, std::vector<Array>& arrays, const Bindings& bindings = {}) {
  std::vector<View> views;
  for (Array& a : arrays) views.push_back(a.view());
  const std::vector<Position> positions = all_positions(kernel, bindings);
  return bounded_eval(kernel, views, bindings, positions, {.max_ops = 1e9});
}

// How many samples of floats lie outside of their likely and worst bounds when REF rounds as it goes.
struct Outside {
  int likely = 0, worst = 0, open = 0;
  double tightest = 0;  // largest error seen over the likely bound
};
Outside outside_of(Node kernel, std::vector<Array> arrays, const Bindings& bindings = {}) {
  const BoundedReport report = bounded(kernel, arrays, bindings);
  EXPECT_FALSE(report.incomplete) << report.reason;
  EXPECT_TRUE(report.faults.empty());
  EvalOptions options;
  options.max_ops = 1e10;
  const EvalReport plain = run_kernel(kernel, arrays, options, bindings);
  EXPECT_TRUE(plain.ok()) << all_faults(plain);
  Outside out;
  for (const Sample& s : report.samples) {
    if (!s.written) continue;
    if (s.open) {
      ++out.open;
      continue;
    }
    const Array& array = arrays[static_cast<std::size_t>(s.slot)];
    const bool is_float = array.dtype().is_float();
    const double got = array.number(s.element), want = is_float ? s.value.f : static_cast<double>(s.value.i);
    const double error = got == want || (std::isnan(got) && std::isnan(want)) ? 0 : std::fabs(got - want);
    out.likely += !(error <= s.likely);
    out.worst += !(error <= s.worst);
    if (s.likely > 0) out.tightest = std::max(out.tightest, error / s.likely);
  }
  return out;
}

Node product(std::int64_t m, std::int64_t n, std::int64_t k, DType in, DType sum, DType out) {
  Node i = global(m, 0), j = global(n, 1), l = reduce_over(k, 2);
  Node a = load(param(in, 1, m * k), i * c(k) + l), b = load(param(in, 2, k * n), l * c(n) + j);
  Node total = reduce_ranges(Op::Add, cast(a, sum) * cast(b, sum), {&l, 1});
  return kernel_of(param(out, 0, m * n), i * c(n) + j, cast(total, out), {i, j});
}

constexpr DType kFloats[] = {dtypes::Float64, dtypes::Float32, dtypes::Float16,     dtypes::BFloat16,
                             dtypes::Fp8e4m3, dtypes::Fp8e5m2, dtypes::Fp8e4m3fnuz, dtypes::Fp8e5m2fnuz};

TEST(Bounded, RoundingFactsAreThoseOfTheFormats) {
  const Rounding& f = rounding_of(dtypes::Float32);
  EXPECT_EQ(f.precision, 24);
  EXPECT_EQ(f.unit, std::exp2(-24));
  EXPECT_EQ(f.tiny, std::exp2(-150));
  EXPECT_EQ(rounding_of(dtypes::Float16).limit, 65520);
  EXPECT_EQ(rounding_of(dtypes::Fp8e4m3).limit, 464);
  EXPECT_EQ(rounding_of(dtypes::BFloat16).precision, 8);
  EXPECT_EQ(rounding_of(dtypes::Float64).precision, 53);
}

TEST(Bounded, ProductsOfAllDtypesStayWithinTheirBounds) {
  Scope scope;
  for (DType d : kFloats)
    for (std::int64_t k : {1, 2, 7, 64, 255, 1024}) {
      const DType sum = d.bits() < 32 ? dtypes::Float32 : d;
      Node kernel = product(6, 5, k, d, sum, d);
      std::vector<Array> arrays = {Array(d, 30), random_array(d, 6 * k, 1), random_array(d, 5 * k, 2)};
      const Outside found = outside_of(kernel, arrays);
      EXPECT_EQ(found.worst + found.likely, 0) << d.str() << " k " << k << " ratio " << found.tightest;
    }
}

}  // namespace
}  // namespace lathe::reference
