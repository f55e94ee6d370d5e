// What the patterns that users write as whole tables cost once scheduled: kernels, loads, other operations
// and bytes. The numbers of the table are upper bounds that may only fall.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "codegen/kernel/count.h"
#include "codegen/kernel/scan_reduces.h"
#include "ir/ranges.h"
#include "lathe/lathe.h"
#include "schedule/schedule.h"
#include "tensor/impl.h"

namespace lathe {
namespace {

struct Work {
  std::size_t kernels = 0;
  double loads = 0, operations = 0, bytes = 0;
};

// Whether what is only compared with the range is not done again for each of its values.
bool is_walked(Node kernel, Node range) {
  for (Node n : toposort(kernel))
    if (n.is(Op::Reduce) && (selected_row(n, range) || running_step(n, range, kRulesAsWritten))) return true;
  return false;
}

Work work_of(const std::vector<Tensor>& tensors) {
  Scope scope;
  std::vector<Node> targets;
  for (const Tensor& t : tensors) targets.push_back(node_of(t));
  Schedule made = schedule(targets);
  Work work;
  for (const Step& step : made.steps) {
    if (step.is_copy()) continue;
    ++work.kernels;
    work.operations += count_work(step.ast).flops;
    work.bytes += count_work(step.ast).bytes;
    for (Node n : toposort(step.ast.node())) {
      if (!n.is(Op::Load)) continue;
      double times = 1;
      for (Node r : ranges_of(n))
        if (depends_on(n.arg(1), r) || !is_walked(step.ast.node(), r)) times *= typical_extent(r);
      work.loads += times;
    }
  }
  return work;
}

Tensor given(const Shape& shape, DataType dtype = dtypes::float32) {
  return Tensor::empty(shape, {.dtype = dtype});
}
Tensor gradient_of(const Tensor& y, const Tensor& x) {
  Tensor seed = given(y.shape());
  return y.gradient({x}, &seed)[0];
}

constexpr std::int64_t kRows = 50000, kWidth = 768, kTaken = 4096;
constexpr double kOut = static_cast<double>(kTaken) * kWidth, kTable = static_cast<double>(kRows) * kWidth;

struct Pattern {
  const char* name;
  std::function<std::vector<Tensor>()> build;
  std::size_t kernels;
  double loads, operations, bytes;
};

TEST(Work, NoPatternCostsMoreThanItsBound) {
  Tensor table = given({kRows, kWidth}), index = given({kTaken}, dtypes::int32), line = given({kTaken});
  Tensor square = given({64, 512}), at = given({64, 512}, dtypes::int32), parts = given({1024, 96});
  const double n = kTaken, m = 64 * 512, k = 1024 * 96;
  // n and m are elements of what is indexed or scanned.
  const Pattern patterns[] = {
      {"arange", [&] { return std::vector{Tensor::arange(kTaken) * 2 + 1}; }, 1, 0, 2 * n, 4 * n},
      {"one hot", [&] { return std::vector{index.one_hot(1000)}; }, 1, n, 1000 * n, 4004 * n},
      {"gather", [&] { return std::vector{table.embedding(index)}; }, 1, kOut + n, 2 * n, 8 * kOut + 4 * n},
      {"gather backward", [&] { return std::vector{gradient_of(table.embedding(index), table)}; }, 17,
       1.04 * kTable, 1.1 * kTable, 4.4 * kTable},
      {"gather along an axis", [&] { return std::vector{square.gather(1, at)}; }, 1, 2 * m, 2 * m, 12 * m},
      {"gather along an axis backward",
       [&] { return std::vector{gradient_of(square.gather(1, at), square)}; }, 2, 3 * m, 3 * m, 20 * m},
      {"scatter add", [&] { return std::vector{square.scatter(1, at, square, "add")}; }, 3, 5 * m, 4 * m,
       32 * m},
      {"sort", [&] { return std::vector{line.sort().first}; }, 29, 39 * n, 39 * n, 251 * n},
      {"sort backward", [&] { return std::vector{gradient_of(line.sort().first, line)}; }, 30, 40 * n, 40 * n,
       259 * n},
      {"cat", [&] { return std::vector{Tensor::cat({parts, parts * 2}, 0)}; }, 1, 4 * k, 2 * k, 12 * k},
      {"cat backward",
       [&] {
         Tensor other = given({512, 96});
         return std::vector{gradient_of(Tensor::cat({parts, other}, 0), parts)};
       },
       1, k, 0, 8 * k},
      {"cumsum", [&] { return std::vector{line.cumsum(0)}; }, 1, n, n, 8 * n},
      {"cumsum backward", [&] { return std::vector{gradient_of(line.cumsum(0), line)}; }, 1, n, n, 8 * n},
      // The mask of the gradient comes from the result, so what goes into it is not kept: four products.
      {"relu between products, with its gradient",
       [&] {
         Tensor weights = given({512, 512}), hidden = square.matmul(weights).relu(),
                out = hidden.matmul(given({512, 512}));
         return std::vector{out, gradient_of(out, weights)};
       },
       4, 30 * m, 4098 * m, 164 * m},
  };
  for (const Pattern& p : patterns) {
    Work w = work_of(p.build());
    EXPECT_LE(w.kernels, p.kernels) << p.name;
    EXPECT_LE(w.loads, p.loads) << p.name;
    EXPECT_LE(w.operations, p.operations) << p.name;
    EXPECT_LE(w.bytes, p.bytes) << p.name;
    if (std::getenv("SHOW_WORK") != nullptr)
      std::printf("%-32s %3zu kernels %12.0f loads %14.0f ops %12.0f bytes\n", p.name, w.kernels, w.loads,
                  w.operations, w.bytes);
  }
}

}  // namespace
}  // namespace lathe
