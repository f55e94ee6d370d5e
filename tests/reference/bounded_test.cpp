// REF with errors: its values are those of the kernel, and what it says about errors holds for REF's own
// evaluation in the kernel's dtypes, which rounds as a device does.
#include "reference/bounded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ir/dot.h"
#include "reference/float_rules.h"
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

// A sum of two terms, the first of which is 0 or 5: undecided, and 0 by REF.
TEST(Bounded, ATermThatIsZeroOnlyByREFRoundsLikeOthers) {
  Scope scope;
  const double square = static_cast<double>(0.1f) * static_cast<double>(0.1f);
  const bool below = square < static_cast<double>(static_cast<float>(square));
  Node l = reduce_over(2, 0),
       zero_or_five = where(less(x(1) * x(2), x(3)), f32(below ? 0 : 5), f32(below ? 5 : 0));
  Node term = where(equal(l, c(0)), zero_or_five, x(4));
  const Sample sum = only(reduce_ranges(Op::Add, term, {&l, 1}), {0.1, 0.1, square, 0.3});
  EXPECT_EQ(sum.value.f, static_cast<double>(0.3f));
  EXPECT_GE(sum.worst, static_cast<double>(0.3f + 5.0f) - static_cast<double>(0.3f));
}

// The divisor is a sum that reaches 0 only if all its roundings go one way.
TEST(Bounded, AProductThatIsAddedIsLikelyWhereOnlyItsWorstIsUnknown) {
  Scope scope;
  Node l = reduce_over(1001, 0);
  Node divisor = reduce_ranges(Op::Add, load(param(dtypes::Float32, 1, 1001), l), {&l, 1});
  Node value = x(2) / divisor * x(3) + x(4);
  Node kernel = kernel_of(param(dtypes::Float32, 0, 1), c(0), value, {});
  std::vector<Array> arrays = {Array(dtypes::Float32, 1), Array(dtypes::Float32, 1001)};
  for (std::int64_t i = 0; i < 1000; ++i)
    arrays[1].set(i, {0, static_cast<double>(i % 2 == 0 ? 0.1f : -0.1f)});
  arrays[1].set(1000, {0, static_cast<double>(0.001f)});
  for (double v : {0.5, 0.3, 0.7}) arrays.push_back(Array::of(dtypes::Float32, {&v, 1}));
  const Sample s = bounded(kernel, arrays).samples[0];
  EXPECT_FALSE(s.open);
  EXPECT_LT(s.likely, 10);
  EXPECT_EQ(s.worst, kOpen);
}

// What the memory of a kernel's own holds after a store behind an undecided gate, or to an undecided element.
TEST(Bounded, AnUndecidedStoreLeavesEitherValue) {
  Scope scope;
  const double square = static_cast<double>(0.1f) * static_cast<double>(0.1f);
  auto held = [&](Node index, Node gate, std::int64_t read) {
    Node tile = define(dtypes::Float32, 0, 4, Space::Register), j = range(c(4), 5, RangeKind::Loop);
    Node filled = end(store(tile, j, f32(2)), {&j, 1});
    Node stored = store(after(tile, {&filled, 1}), index, f32(7), gate);
    const std::vector<Node> both = {filled, stored};
    return only(load(after(tile, both), c(read)), {0.1, 0.1, square});
  };
  Node near = less(x(1) * x(2), x(3)), far = less(x(1) * x(2), f32(1));
  EXPECT_EQ(held(c(1), near, 1).worst, 5);
  EXPECT_EQ(held(c(1), near, 2).worst, 0);
  EXPECT_EQ(held(c(1), far, 1).value.f, 7);
  EXPECT_EQ(held(c(1), far, 1).worst, 0);
  // 1 or 2, whichever side of the bound REF is on.
  Node index = where(near, c(1), c(2));
  for (std::int64_t e : {1, 2}) EXPECT_EQ(held(index, Node(), e).worst, 5) << e;
  EXPECT_EQ(held(where(far, c(1), c(3)), Node(), 1).worst, 0);
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

// ---- magnitudes from the smallest number to the largest

// Numbers of all magnitudes of the dtype, and those that are none.
std::vector<double> all_magnitudes(DType dtype) {
  const double limit = std::min(rounding_of(dtype).limit, 1.7e308);
  std::vector<double> out = {0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0.5, 3};
  for (double v = 1.37; v < limit; v *= 1 << 12) out.insert(out.end(), {v, -v * 0.7, 1 / v, -0.6 / v});
  for (const double steps : {2., 6., 1001., 12345678.9}) out.push_back(rounding_of(dtype).tiny * steps);
  for (const double part : {0.27, 0.51, 0.99}) out.push_back(limit * part);
  return out;
}

// What the elements make when a device combines any two of them next, in the dtype.
double in_some_order(Op op, DType dtype, std::vector<double> values, std::mt19937_64& random) {
  while (values.size() > 1) {
    std::swap(values[random() % values.size()], values.back());
    const double last = values.back();
    values.pop_back();
    double& other = values[random() % values.size()];
    other = round_to(dtype, op == Op::Add ? other + last : other * last);
  }
  return values[0];
}

TEST(Bounded, SumsAndProductsOfAllMagnitudesHoldInEveryOrder) {
  Scope scope;
  constexpr std::int64_t kRows = 60;
  for (const Op op : {Op::Add, Op::Mul})
    for (const DType d : {dtypes::Float64, dtypes::Float32, dtypes::Float16, dtypes::BFloat16})
      for (const std::int64_t k : {2, 3, 8, 20}) {
        std::mt19937_64 random(17);
        const std::vector<double> from = all_magnitudes(d);
        Node i = global(kRows, 0), l = reduce_over(k, 1);
        Node total = reduce_ranges(op, load(param(d, 1, kRows * k), i * c(k) + l), {&l, 1});
        Node kernel = kernel_of(param(d, 0, kRows), i, total, {i});
        std::vector<Array> arrays = {Array(d, kRows), Array(d, kRows * k)};
        for (std::int64_t e = 0; e < kRows * k; ++e) {
          // Some rows stay near 1, where most can be said; some hold only finite numbers.
          const std::size_t kind = static_cast<std::size_t>(e / k % 3);
          const double v = kind == 0
                               ? std::ldexp(1 + static_cast<double>(random() % 8) / 8, random() % 3)
                               : from[kind == 1 ? 5 + random() % (from.size() - 5) : random() % from.size()];
          arrays[1].set(e, convert(d, dtypes::Float64, {0, v}));
        }
        const BoundedReport report = bounded(kernel, arrays);
        int open = 0;
        for (std::int64_t row = 0; row < kRows; ++row) {
          const Sample& s = report.samples[static_cast<std::size_t>(row)];
          open += s.open;
          if (s.open) continue;
          std::vector<double> values;
          for (std::int64_t e = 0; e < k; ++e) values.push_back(arrays[1].number(row * k + e));
          for (int order = 0; order < 50; ++order) {
            const double got = in_some_order(op, d, values, random), want = s.value.f;
            const bool same = got == want || (std::isnan(got) && std::isnan(want));
            EXPECT_TRUE(same || std::fabs(got - want) <= s.worst * (1 + 1e-6))
                << info(op).name << " of " << k << " " << d.str() << ", row " << row << ": " << got << " not "
                << want << " worst " << s.worst;
          }
        }
        EXPECT_LT(open, kRows * 3 / 4) << info(op).name << " of " << k << " " << d.str();
      }
}

TEST(Bounded, WhatOverflowsInOneOrderAndNotInAnotherIsOpen) {
  Scope scope;
  const auto reduced = [](Op op, DType d, std::vector<double> values) {
    const auto k = static_cast<std::int64_t>(values.size());
    Node l = reduce_over(k, 0);
    Node kernel = kernel_of(param(d, 0, 1), c(0), reduce_ranges(op, load(param(d, 1, k), l), {&l, 1}), {});
    std::vector<Array> arrays = {Array(d, 1), Array::of(d, values)};
    return bounded(kernel, arrays).samples[0];
  };
  const double inf = INFINITY;
  EXPECT_TRUE(reduced(Op::Mul, dtypes::Float32, {1e30, 1e30, 1e-30}).open);
  EXPECT_TRUE(reduced(Op::Mul, dtypes::Float32, {1e30, 1e30, 0}).open) << "0 or NaN";
  EXPECT_TRUE(reduced(Op::Mul, dtypes::Float32, {1e-30, 1e-30, inf}).open) << "infinite or NaN";
  EXPECT_FALSE(reduced(Op::Mul, dtypes::Float32, {1e30, 1e20, 2}).open) << "infinite in every order";
  EXPECT_EQ(reduced(Op::Mul, dtypes::Float32, {1e30, 1e20, -2}).value.f, -inf);
  EXPECT_FALSE(reduced(Op::Mul, dtypes::Float32, {0, inf, 2}).open) << "NaN in every order";
  EXPECT_EQ(reduced(Op::Mul, dtypes::Float32, {3, -5, 7}).worst, 0);
  EXPECT_TRUE(reduced(Op::Add, dtypes::Float64, {1.7e308, 1.7e308, -1.7e308, -1.7e308}).open);
  EXPECT_TRUE(reduced(Op::Add, dtypes::Float32, {3e38, 3e38, -inf}).open) << "NaN or infinite";
  EXPECT_EQ(reduced(Op::Add, dtypes::Float32, {3e37, 3e37, -inf}).value.f, -inf);
}

// Pairs of ops, the second on what the first has rounded.
TEST(Bounded, BoundsHoldForOpsOnRoundedResultsOfAllMagnitudes) {
  Scope scope;
  const Op ops[] = {Op::Recip, Op::Sqrt, Op::Exp2, Op::Log2, Op::Sin, Op::Cos, Op::Neg,
                    Op::Floor, Op::Add,  Op::Sub,  Op::Mul,  Op::Div, Op::Max, Op::Min};
  for (const DType d : {dtypes::Float64, dtypes::Float32, dtypes::BFloat16}) {
    const std::vector<double> from = all_magnitudes(d);
    const auto n = static_cast<std::int64_t>(from.size());
    std::vector<double> shuffled = from;
    std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937_64(3));
    Node i = global(n, 0), x = load(param(d, 1, n), i), y = load(param(d, 2, n), i);
    const auto made = [](Op op, Node a, Node b) {
      return info(op).args > 1 ? apply(op, a, b) : apply(op, a);
    };
    for (const Op first : ops)
      for (const Op second : ops)
        for (const bool left : {true, false}) {
          Node inner = made(first, x, y);
          Node kernel =
              kernel_of(param(d, 0, n), i, left ? made(second, inner, y) : made(second, y, inner), {i});
          const std::vector<Array> arrays = {Array(d, n), Array::of(d, from), Array::of(d, shuffled)};
          EXPECT_EQ(outside_of(kernel, arrays).worst, 0)
              << info(second).name << " of " << info(first).name << ", " << d.str();
        }
  }
}

// The instructions for sums of bfloat16 products take subnormal numbers for 0.
TEST(Bounded, AMatrixUnitThatFlushesSubnormalNumbersIsWithinTheBounds) {
  Scope scope;
  const DotKind& kind = *find_dot_kind("bf16");
  Node kernel = product(1, 1, 2, dtypes::BFloat16, dtypes::Float32, dtypes::Float32);
  const double rows[][4] = {{9.2e-41, 3, 3e38, 0.25},
                            {1e-30, 1e-10, 1e-30, 1e-29},
                            {9.2e-41, 0, 1, 0},
                            {1.5, 3, 2, 0.25},
                            {2.2e-38, -2.1e-38, 1, 1}};
  for (const auto& row : rows) {
    std::vector<Array> arrays = {Array(dtypes::Float32, 1), Array::of(dtypes::BFloat16, {row, 2}),
                                 Array::of(dtypes::BFloat16, {row + 2, 2})};
    std::uint32_t words[2];
    for (const std::size_t i : {0, 1}) std::memcpy(&words[i], arrays[1 + i].data(), 4);
    const double got = dot_value(kind, words[0], words[1], {0, 0}).f;
    const Sample s = bounded(kernel, arrays).samples[0];
    EXPECT_LE(std::fabs(got - s.value.f), s.worst) << row[0] << " " << row[1];
    EXPECT_EQ(s.worst == 0, row[0] == 1.5) << "what is exact and normal stays so";
  }
}

}  // namespace
}  // namespace lathe::reference
