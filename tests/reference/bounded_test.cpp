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
  EXPECT_GT(rounding_of(dtypes::Float64).tiny, 0);
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

// One position of a kernel of one store of float32 (or int32) made of the value, over memory of one element a
// param.
Sample only(Node value, std::vector<double> loaded) {
  Node kernel = kernel_of(param(value.dtype(), 0, 1), c(0), value, {});
  std::vector<Array> arrays = {Array(value.dtype(), 1)};
  for (double v : loaded) arrays.push_back(Array::of(dtypes::Float32, {&v, 1}));
  const BoundedReport report = bounded(kernel, arrays);
  EXPECT_FALSE(report.incomplete) << report.reason;
  return report.samples.empty() ? Sample{} : report.samples[0];
}
Node f32(double v) { return float_const(dtypes::Float32, v); }
Node x(std::int64_t slot = 1) { return load(param(dtypes::Float32, slot, 1), c(0)); }
const double kUnit = std::exp2(-24);

TEST(Bounded, WhatIsExactlyRepresentableHasNoError) {
  Scope scope;
  EXPECT_EQ(only(x(), {0.1}).worst, 0);
  EXPECT_EQ(only(x(1) * x(2) + f32(1), {3, 0.25}).worst, 0);
  const Sample tenth = only(x(1) * x(2), {0.1, 0.1});
  EXPECT_GT(tenth.worst, 0);
  EXPECT_LE(tenth.worst, 1.01 * kUnit * 0.01);
  EXPECT_EQ(tenth.worst, tenth.likely) << "one rounding may always go against us";
}

TEST(Bounded, ASumOfWholeNumbersIsExactAndOneOfOthersIsNot) {
  Scope scope;
  Node l = reduce_over(100, 0);
  Node kernel = kernel_of(param(dtypes::Float32, 0, 1), c(0),
                          reduce_ranges(Op::Add, load(param(dtypes::Float32, 1, 100), l), {&l, 1}), {});
  std::vector<Array> arrays = {Array(dtypes::Float32, 1), Array(dtypes::Float32, 100)};
  for (std::int64_t i = 0; i < 100; ++i) arrays[1].set(i, {0, static_cast<double>(i % 13 - 6) / 4});
  EXPECT_EQ(bounded(kernel, arrays).samples[0].worst, 0);
  arrays[1].set(50, {0, static_cast<double>(0.1f)});
  const Sample s = bounded(kernel, arrays).samples[0];
  EXPECT_GT(s.likely, 0);
  EXPECT_LT(s.likely, s.worst);
}

TEST(Bounded, PowersTakeBothEndsAndAddTheErrorOfTheColumn) {
  Scope scope;
  const Sample exact = only(apply(Op::Exp2, x()), {0.3}), whole = only(apply(Op::Exp2, x()), {5});
  EXPECT_NEAR(exact.worst, 2 * kUnit * exact.value.f, 1e-12);  // one ulp
  EXPECT_EQ(whole.worst, 0);
  const Sample of_inexact = only(apply(Op::Exp2, x(1) * x(2)), {7.3, 7.7});
  EXPECT_GT(of_inexact.worst / of_inexact.value.f, 0.69 * kUnit * 7.3 * 7.7);
}

TEST(Bounded, AnInstructionOfTheDeviceHasItsOwnError) {
  Scope scope;
  Node i = global(1, 0);
  Node kernel =
      kernel_of(param(dtypes::Float32, 0, 1), i, apply(Op::Exp2, load(param(dtypes::Float32, 1, 1), i)), {i});
  Array given(dtypes::Float32, 1);
  given.set(0, {0, 0.3});
  std::vector<Array> arrays = {Array(dtypes::Float32, 1), given};
  std::vector<View> views;
  for (Array& a : arrays) views.push_back(a.view());
  const std::vector<Position> positions = all_positions(kernel, {});
  const OpError own[] = {{Op::Exp2, 3}};
  const Sample by_column = bounded_eval(kernel, views, {}, positions).samples[0],
               by_own = bounded_eval(kernel, views, {}, positions, {.native = own}).samples[0];
  EXPECT_NEAR(by_own.worst, 3 * by_column.worst, 1e-12);
}

TEST(Bounded, AMaximumHasTheBoundOfTheOneThatWins) {
  Scope scope;
  Node product = x(1) * x(2);
  EXPECT_EQ(only(max(product, x(3)), {0.1, 0.1, 5}).worst, 0);
  EXPECT_GT(only(max(product, x(3)), {0.1, 0.1, -5}).worst, 0);
}

TEST(Bounded, ADivisionAcrossZeroIsOpenAndOneByZeroIsInfinite) {
  Scope scope;
  Node product = x(1) * x(2);  // about 0.01
  EXPECT_TRUE(only(x(3) / (product - x(4)), {0.1, 0.1, 1, static_cast<double>(0.1f) * 0.1f}).open);
  const Sample by_zero = only(x(1) / x(2), {-1, 0});
  EXPECT_EQ(by_zero.value.f, -INFINITY);
  EXPECT_FALSE(by_zero.open);
  EXPECT_EQ(by_zero.worst, 0);
}

TEST(Bounded, AnUndecidedComparisonIsTheHullOfBothBranches) {
  Scope scope;
  const double third = static_cast<double>(0.1f) * static_cast<double>(0.1f);
  Node product = x(1) * x(2), chosen = where(less(product, x(3)), f32(2), f32(7));
  const Sample near = only(chosen, {0.1, 0.1, third}), far = only(chosen, {0.1, 0.1, 1});
  EXPECT_EQ(near.worst, 5);
  EXPECT_EQ(far.worst, 0);
  EXPECT_EQ(far.value.f, 2);
}

TEST(Bounded, AnUndecidedIndexIsOpen) {
  Scope scope;
  Node at = cast(cast(x(1) * x(2), dtypes::Int32), dtypes::Index);
  Node kernel = kernel_of(param(dtypes::Float32, 0, 1), c(0), load(param(dtypes::Float32, 3, 8), at), {});
  std::vector<Array> arrays = {Array(dtypes::Float32, 1), Array(dtypes::Float32, 1),
                               Array(dtypes::Float32, 1), random_array(dtypes::Float32, 8, 1)};
  auto set = [&](double a, double b) {
    arrays[1].set(0, convert(dtypes::Float32, dtypes::Float64, {0, a}));
    arrays[2].set(0, convert(dtypes::Float32, dtypes::Float64, {0, b}));
  };
  set(1.1, 3 / 1.1);
  EXPECT_TRUE(bounded(kernel, arrays).samples[0].open);
  set(1.1, 3.2 / 1.1);
  EXPECT_FALSE(bounded(kernel, arrays).samples[0].open);
}

TEST(Bounded, ResultsThatOverflowAreInfiniteAndThoseThatMayAreOpen) {
  Scope scope;
  auto half = [](Node v) { return cast(v, dtypes::Float16); };
  EXPECT_EQ(only(half(x()), {70000}).value.f, INFINITY);
  EXPECT_FALSE(only(half(x()), {70000}).open);
  EXPECT_EQ(only(half(x()), {65000}).open, false);
  EXPECT_TRUE(only(half(x(1) * x(2)), {655.2, 100}).open);
  const Sample nan = only(apply(Op::Sqrt, x()), {-1});
  EXPECT_TRUE(std::isnan(nan.value.f) && nan.worst == 0 && !nan.open);
}

// The first place of the largest of x * y by row.
TEST(Bounded, ThePlaceOfAComputedMaximumIsExactUnlessTwoAreWithinTheirBounds) {
  Scope scope;
  Node i = global(2, 0), j = reduce_over(8, 1), k = reduce_over(8, 2);
  auto value = [&](Node at) {
    return load(param(dtypes::Float32, 1, 16), i * c(8) + at) *
           load(param(dtypes::Float32, 2, 16), i * c(8) + at);
  };
  Node best = reduce_ranges(Op::Max, value(j), {&j, 1});
  Node hit = apply(Op::Or, equal(value(k), best), apply(Op::Ne, value(k), value(k)));
  Node place = where(hit, cast(k, dtypes::Int32), int_const(dtypes::Int32, 8));
  Node kernel = kernel_of(param(dtypes::Int32, 0, 2), i, reduce_ranges(Op::Min, place, {&k, 1}), {i});
  std::vector<Array> arrays = {Array(dtypes::Int32, 2), random_array(dtypes::Float32, 16, 1),
                               random_array(dtypes::Float32, 16, 2)};
  for (std::int64_t slot : {1, 2}) {
    arrays[static_cast<std::size_t>(slot)].set(3, {0, static_cast<double>(3.3f)});
    arrays[static_cast<std::size_t>(slot)].set(12, {0, static_cast<double>(3.3f)});
    arrays[static_cast<std::size_t>(slot)].set(14, {0, static_cast<double>(3.3f)});
  }
  const BoundedReport report = bounded(kernel, arrays);
  EXPECT_EQ(report.samples[0].value.i, 3);
  EXPECT_EQ(report.samples[0].worst, 0);
  EXPECT_EQ(report.samples[1].value.i, 4);
  EXPECT_GT(report.samples[1].worst, 0);
}

TEST(Bounded, LoopsOfDifferentLengthRunInOneGo) {
  Scope scope;
  Node i = global(6, 0);
  Node length = cast(load(param(dtypes::Int32, 2, 6), i), dtypes::Index);
  Node l = range(min(max(length, c(0)), c(9)), 1, RangeKind::Reduce);
  Node total = reduce_ranges(Op::Add, load(param(dtypes::Float32, 1, 54), i * c(9) + l) + f32(1), {&l, 1});
  Node kernel = kernel_of(param(dtypes::Float32, 0, 6), i, total, {i});
  const double lengths[] = {0, 9, 3, 1, 0, 5};
  const std::vector<Array> arrays = {Array(dtypes::Float32, 6), random_array(dtypes::Float32, 54, 3),
                                     Array::of(dtypes::Int32, lengths)};
  const Outside found = outside_of(kernel, arrays);
  EXPECT_EQ(found.likely + found.worst + found.open, 0);
}

TEST(Bounded, AnIndexOfTheUsersThatIsOutsideIsSaidAndAnAccessOutsideIsAFault) {
  Scope scope;
  Node index = cast(load(param(dtypes::Int32, 1, 1), c(0)), dtypes::Index);
  Node checked = check(index, c(4), bool_const(true), "gather");
  Node gate = less(c(-1), checked);
  Node kernel =
      kernel_of(param(dtypes::Float32, 0, 1), c(0), load(param(dtypes::Float32, 2, 4), checked, gate), {});
  std::vector<Array> arrays = {Array(dtypes::Float32, 1), Array(dtypes::Int32, 1),
                               random_array(dtypes::Float32, 4, 1)};
  EXPECT_FALSE(bounded(kernel, arrays).index_fault);
  arrays[1].set(0, {7, 0});
  EXPECT_TRUE(bounded(kernel, arrays).index_fault);
  EXPECT_TRUE(bounded(kernel, arrays).faults.empty());
  Node wrong = kernel_of(param(dtypes::Float32, 0, 1), c(0), load(param(dtypes::Float32, 2, 4), c(4)), {});
  EXPECT_EQ(bounded(wrong, arrays).faults.size(), 1u);
}

TEST(Bounded, AStoreBehindAClosedGateWritesNothing) {
  Scope scope;
  Node i = global(4, 0);
  Node kernel = kernel_of(param(dtypes::Float32, 0, 4), i, f32(1), {i}, less(i, c(2)));
  std::vector<Array> arrays = {Array(dtypes::Float32, 4)};
  const BoundedReport report = bounded(kernel, arrays);
  EXPECT_TRUE(report.samples[1].written);
  EXPECT_FALSE(report.samples[2].written);
}

TEST(Bounded, WhatTakesTooLongIsSaidToBeIncomplete) {
  Scope scope;
  Node kernel = product(2, 2, 1000, dtypes::Float32, dtypes::Float32, dtypes::Float32);
  std::vector<Array> arrays = {Array(dtypes::Float32, 4), Array(dtypes::Float32, 2000),
                               Array(dtypes::Float32, 2000)};
  std::vector<View> views;
  for (Array& a : arrays) views.push_back(a.view());
  const Position first{0, {0, 0}};
  const BoundedReport report = bounded_eval(kernel, views, {}, {&first, 1}, {.max_ops = 100});
  EXPECT_TRUE(report.incomplete);
  EXPECT_NE(report.reason.find("operations"), std::string::npos) << report.reason;
  EXPECT_GT(position_costs(kernel, {})[0], 1000);
}

}  // namespace
}  // namespace lathe::reference
