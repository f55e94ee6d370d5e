// Where positions are few, several lanes share the long reduces of each. What comes out is what comes out
// with a lane a position.
#include "reference/lane_split.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/walk.h"
#include "reference/bounded.h"
#include "reference/helpers.h"
#include "reference/kernel_code.h"

namespace lathe::reference {
namespace {

constexpr std::int64_t kRows = 128;

Node c(std::int64_t v) { return index_const(v); }
Node f(double v) { return float_const(dtypes::Float32, v); }

struct Case {
  const char* name;
  Node kernel;
  DType in;
};

// A kernel of 128 outputs, made from a matrix of 128 rows.
Case row_case(const char* name, DType in, DType out, std::int64_t length,
              Node (*value)(Node row, Node size, DType in)) {
  Node i = range(c(kRows), 0, RangeKind::Global);
  Node result = value(i, c(length), in);
  Node effect = end(store(param(out, 0, kRows), i, result), {&i, 1});
  return {name, sink({&effect, 1}), in};
}

Node element(Node row, Node at, Node length, DType in) {
  return load(param(in, 1, kRows * length.const_int()), row * length + at);
}
Node reduce_row(Op op, Node row, Node length, DType in, std::int64_t id, Node (*of)(Node element, Node other),
                Node other = Node()) {
  Node k = range(length, id, RangeKind::Reduce);
  return reduce_ranges(op, of(element(row, k, length, in), other), {&k, 1});
}

std::vector<Case> cases() {
  auto sum = [](Node i, Node n, DType in) {
    return reduce_row(Op::Add, i, n, in, 1, [](Node x, Node) { return x * x; });
  };
  auto wide_sum = [](Node i, Node n, DType in) {
    return cast(reduce_row(Op::Add, i, n, in, 1, [](Node x, Node) { return cast(x, dtypes::Float32); }),
                dtypes::BFloat16);
  };
  auto most = [](Node i, Node n, DType in) {
    return reduce_row(Op::Max, i, n, in, 1, [](Node x, Node) { return x * f(0.3); });
  };
  auto softmax_sum = [](Node i, Node n, DType in) {
    Node top = reduce_row(Op::Max, i, n, in, 1, [](Node x, Node) { return x * f(1.7); });
    return reduce_row(
        Op::Add, i, n, in, 2, [](Node x, Node m) { return apply(Op::Exp2, x * f(1.7) - m); }, top);
  };
  auto variance = [](Node i, Node n, DType in) {
    Node mean = reduce_row(Op::Add, i, n, in, 1, [](Node x, Node) { return x; }) * f(1.0 / 700);
    return reduce_row(Op::Add, i, n, in, 2, [](Node x, Node m) { return (x - m) * (x - m); }, mean);
  };
  auto place = [](Node i, Node n, DType in) {
    Node top = reduce_row(Op::Max, i, n, in, 1, [](Node x, Node) { return x; });
    Node k = range(n, 2, RangeKind::Reduce);
    Node at = where(equal(element(i, k, n, in), top), cast(k, dtypes::Int32), int_const(dtypes::Int32, -1));
    return reduce_ranges(Op::Max, at, {&k, 1});
  };
  // A reduce over two ranges, the longer one inside, of what another reduce made.
  auto nested = [](Node i, Node n, DType in) {
    Node a = range(c(3), 1, RangeKind::Reduce), b = range(n, 2, RangeKind::Reduce), r[] = {a, b};
    Node low = reduce_row(Op::Min, i, n, in, 3, [](Node x, Node) { return x; });
    return reduce_ranges(Op::Add,
                         (element(i, b, n, in) - low) * cast(cast(a, dtypes::Int32), dtypes::Float32), r);
  };
  constexpr DType kFloat = dtypes::Float32, kInt = dtypes::Int32;
  return {row_case("sum", kFloat, kFloat, 1000, sum),
          row_case("sum of doubles", dtypes::Float64, dtypes::Float64, 640, sum),
          row_case("sum of a prime length", kFloat, kFloat, 997, sum),
          row_case("sum of bfloat16", dtypes::BFloat16, dtypes::BFloat16, 512, wide_sum),
          row_case("sum of integers", kInt, kInt, 900, sum),
          row_case("maximum", kFloat, kFloat, 800, most),
          row_case("softmax", kFloat, kFloat, 768, softmax_sum),
          row_case("variance", kFloat, kFloat, 700, variance),
          row_case("place of a maximum", kFloat, kInt, 640, place),
          row_case("nested", kFloat, kFloat, 512, nested)};
}

TEST(LaneSplit, FewPositionsAreWhatManyAreAndTheirBoundsToo) {
  Scope scope;
  for (const Case& test : cases()) {
    const BoundedKernel kernel(test.kernel, {});
    const StoreAxes& store = kernel.stores()[0];
    const Code code = code_of_store(store.store, store.ranges);
    ASSERT_EQ(split_lanes(code, kRows, 128).share, 1) << test.name;
    ASSERT_GT(split_lanes(code, 2, 128).share, 1) << test.name;
    EXPECT_LT(kernel.cost(0, 2) * 3, 12 * kernel.operations(0))
        << test.name;  // twelve: two lanes, ten for the steps

    Array out(store.store.arg(2).dtype(), kRows);
    std::int64_t size = 0;
    for (Node n : toposort(test.kernel))
      if (n.is(Op::Param) && param_slot(n) == 1) size = memory_size(n);
    Array in = random_array(test.in, size, 5);
    const View views[] = {out.view(), in.view()};
    std::vector<Position> all;
    for (std::int64_t i = 0; i < kRows; ++i) all.push_back({0, {i}});
    const BoundedReport many = kernel.eval(views, all, {.max_ops = 1e9});
    for (std::size_t i : {0u, 17u, 126u})
      for (int threads : {1, 2}) {
        const BoundedReport few =
            kernel.eval(views, std::span(all).subspan(i, 2), {.max_ops = 1e9, .threads = threads});
        ASSERT_EQ(few.samples.size(), 2u) << test.name << few.reason;
        EXPECT_LE(few.ops, 2 * kernel.cost(0, 2)) << test.name;
        for (std::size_t k = 0; k < 2; ++k) {
          const Sample &a = few.samples[k], &b = many.samples[i + k];
          EXPECT_EQ(a.element, b.element) << test.name;
          EXPECT_EQ(a.open, b.open) << test.name;
          if (!out.dtype().is_float()) {
            EXPECT_EQ(a.value.i, b.value.i) << test.name;
            EXPECT_EQ(a.worst, b.worst) << test.name;
            continue;
          }
          EXPECT_NEAR(a.value.f, b.value.f, 1e-12 * std::fabs(b.value.f)) << test.name;
          EXPECT_NEAR(a.worst, b.worst, 1e-6 * b.worst) << test.name;
          // Running values of other stretches count as if they had the same sign.
          EXPECT_GE(a.likely, b.likely * 0.99) << test.name;
          EXPECT_LE(a.likely, b.likely * 4) << test.name;
        }
      }
  }
}

TEST(LaneSplit, NothingIsSharedWhereALongLoopCannotBe) {
  Scope scope;
  const Case test =
      row_case("a product and a sum", dtypes::Float32, dtypes::Float32, 512, [](Node i, Node n, DType in) {
        return reduce_row(Op::Add, i, n, in, 1, [](Node x, Node) { return x; }) +
               reduce_row(Op::Mul, i, n, in, 2, [](Node x, Node) { return x; });
      });
  const StoreAxes store = store_axes(test.kernel, {})[0];
  EXPECT_EQ(split_lanes(code_of_store(store.store, store.ranges), 2, 128).share, 1);
}

TEST(LaneSplit, StretchesOfALoopWhoseLengthIsLoadedFitIt) {
  Scope scope;
  // Sums of the first n[i] elements, n from 0 to 127.
  Node i = range(c(kRows), 0, RangeKind::Global);
  Node length = cast(load(param(dtypes::Int32, 2, kRows), i), dtypes::Index);
  Node k = range(min(max(length, c(0)), c(kRows)), 1, RangeKind::Reduce);
  Node total = reduce_ranges(Op::Add, load(param(dtypes::Int32, 1, kRows), k), {&k, 1});
  Node effect = end(store(param(dtypes::Int32, 0, kRows), i, total), {&i, 1});
  const BoundedKernel kernel(sink({&effect, 1}), {});
  std::vector<double> squares, sizes;
  for (std::int64_t n = 0; n < kRows; ++n) {
    squares.push_back(static_cast<double>(n * n));
    sizes.push_back(static_cast<double>(n * 37 % kRows));
  }
  Array out(dtypes::Int32, kRows), in = Array::of(dtypes::Int32, squares),
                                   lengths = Array::of(dtypes::Int32, sizes);
  const View views[] = {out.view(), in.view(), lengths.view()};
  for (std::int64_t first = 0; first + 2 <= kRows; first += 2) {
    const Position two[] = {{0, {first}}, {0, {first + 1}}};
    const BoundedReport report = kernel.eval(views, two, {.max_ops = 1e9});
    ASSERT_EQ(report.samples.size(), 2u) << report.reason;
    for (std::int64_t r = 0; r < 2; ++r) {
      std::int64_t want = 0;
      for (std::int64_t n = 0; n < ((first + r) * 37) % kRows; ++n) want += n * n;
      EXPECT_EQ(report.samples[static_cast<std::size_t>(r)].value.i, want);
    }
  }
}

}  // namespace
}  // namespace lathe::reference
