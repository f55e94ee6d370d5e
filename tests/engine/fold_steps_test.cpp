// Attention is one kernel on a device whose matrix units take it, and what it was before everywhere else.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/compile_context.h"
#include "engine/fold_steps.h"
#include "ir/build.h"
#include "ir/shape.h"
#include "ir/walk.h"

namespace lathe::engine {
namespace {

// softmax(x y^T) z of heads * rows * 64 numbers.
Node attention(DType dtype, std::int64_t rows) {
  const DType f = dtypes::Float32;
  const std::int64_t heads = 4, width = 64;
  auto sizes = [](std::initializer_list<std::int64_t> list) {
    std::vector<Node> out;
    for (std::int64_t n : list) out.push_back(index_const(n));
    return out;
  };
  auto input = [&] {
    return reshape(new_buffer(dtype, heads * rows * width, "CPU"), sizes({heads, rows, width}));
  };
  auto spread = [&](Node x, bool as_rows, std::int64_t last) {
    const std::int64_t a = as_rows ? rows : 1, b = as_rows ? 1 : rows;
    return expand(reshape(x, sizes({heads, a, b, last})), sizes({heads, rows, rows, last}));
  };
  auto along = [](Op op, Node x, std::int64_t axis) {
    return reduce_axes(op, x, std::vector<std::int64_t>{axis});
  };
  Node scores =
      along(Op::Add, spread(cast(input(), f), true, width) * spread(cast(input(), f), false, width), 3);
  scores = reshape(scores, sizes({heads, rows, rows}));
  auto whole = [&](Node x) { return expand(x, sizes({heads, rows, rows})); };
  Node e = apply(Op::Exp2, scores - whole(along(Op::Max, scores, 2)));
  Node weights = cast(e * whole(apply(Op::Recip, along(Op::Add, e, 2))), dtype);
  Node value = permute(cast(input(), f), std::vector<std::int64_t>{0, 2, 1});
  Node x =
      expand(reshape(cast(weights, f), sizes({heads, rows, 1, rows})), sizes({heads, rows, width, rows}));
  Node y = expand(reshape(value, sizes({heads, 1, width, rows})), sizes({heads, rows, width, rows}));
  return cast(reshape(along(Op::Add, x * y, 3), sizes({heads, rows, width})), dtype);
}

std::size_t kernels(Node out, const char* target_name) {
  const Target target = named_target(target_name);
  ScheduleOptions options;
  options.rows = rows_of(target);
  options.unit_folds = has_unit_folds(target);
  return schedule_folds(std::span(&out, 1), options, [&](const std::string&) { return &target; })
      .steps.size();
}

TEST(FoldSteps, AttentionIsOneKernelWhereAUnitTakesIt) {
  Scope scope;
  EXPECT_EQ(kernels(attention(dtypes::BFloat16, 256), "sm_90a"), 1u);
  EXPECT_EQ(kernels(attention(dtypes::BFloat16, 300), "sm_90a"), 1u);
  EXPECT_GT(kernels(attention(dtypes::BFloat16, 256), "sm_80"), 1u);
  EXPECT_GT(kernels(attention(dtypes::Float32, 256), "sm_90a"), 1u);
}

TEST(FoldSteps, AScheduleIsMadeAgainWhereTheOptionsDoNotFit) {
  Scope scope;
  const ExperimentScope without(Experiment{.disabled = {"group-fold"}});
  EXPECT_GT(kernels(attention(dtypes::BFloat16, 256), "sm_90a"), 1u);
}

}  // namespace
}  // namespace lathe::engine
