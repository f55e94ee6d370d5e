// Factors that are stored once more, as rows of neighbours, for units that read panels.
#include <gtest/gtest.h>

#include <vector>

#include "codegen/choose/lay_out_factors.h"
#include "codegen/choose/split_sum.h"
#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "ir/build.h"
#include "ir/walk.h"
#include "reference/array.h"
#include "reference/reference.h"

namespace lathe::test {
namespace {

using reference::Array;

// Runs a kernel on arrays, one for each of its params.
void evaluate(Node kernel, std::initializer_list<Array*> arrays) {
  std::vector<reference::View> views;
  for (Array* array : arrays) views.push_back(array->view());
  const reference::EvalReport report = reference::kernel_eval(kernel, views);
  EXPECT_TRUE(report.ok()) << (report.faults.empty() ? "" : report.faults[0]);
}

Array whole_numbers(Node memory, int seed) {
  Array array(memory.dtype(), memory_size(memory));
  for (std::int64_t i = 0; i < array.size(); ++i)
    array.set(i, {0, static_cast<double>((i * 5 + seed) % 7) - 3});
  return array;
}

// What a product of two factors stores as it was scheduled and with its factors laid out is the same.
void expect_same(Node kernel, std::size_t copies) {
  const Target target = named_target("sm_90a");
  const std::optional<LaidOut> laid_out = lay_out_factors(kernel, target, Worth::Always);
  ASSERT_TRUE(laid_out.has_value());
  EXPECT_EQ(laid_out->copies.size(), copies);
  std::vector<Array> arrays(3);
  for (Node n : toposort(kernel))
    if (n.is(Op::Param)) {
      const auto slot = static_cast<std::size_t>(param_slot(n));
      arrays[slot] = slot == 0 ? Array(n.dtype(), memory_size(n)) : whole_numbers(n, static_cast<int>(slot));
    }
  Array out = arrays[0];
  evaluate(kernel, {&out, &arrays[1], &arrays[2]});
  std::vector<Array> all = arrays;
  for (const FactorCopy& copy : laid_out->copies) {
    EXPECT_EQ(compare_with_reference(copy.kernel, choose_options(copy.kernel, target), target, 3), "");
    all.emplace_back(copy.dtype, copy.size);
    evaluate(copy.kernel, {&all.back(), &all[static_cast<std::size_t>(copy.source)]});
  }
  std::vector<reference::View> views;
  for (Array& array : all) views.push_back(array.view());
  const Program program =
      lower_kernel(laid_out->kernel, choose_options(laid_out->kernel, target), target, "product");
  int products = 0;
  for (const NodeRef& n : program.code) products += n->is(Op::PanelDot);
  EXPECT_GT(products, 0);
  const reference::EvalReport report = reference::program_eval(program, views);
  EXPECT_TRUE(report.ok()) << (report.faults.empty() ? "" : report.faults[0]);
  for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(out.number(i), all[0].number(i)) << i;
}

TEST(LayOutFactors, OfAConvolutionStoreTheSameWithChannelsAsNeighbours) {
  Scope scope;
  expect_same(convolution(2, 64, 64, 6, 3, dtypes::BFloat16), 2);
}

TEST(LayOutFactors, OfProductsWhoseRowsAreNoWholePiecesArePadded) {
  Scope scope;
  expect_same(turned_matmul(64, 64, 67, true, false), 1);
  expect_same(turned_matmul(64, 64, 70, true, true), 2);
}

TEST(LayOutFactors, AreLeftAloneWhereTheyLieWellOrTooLittleIsMultiplied) {
  Scope scope;
  const Target target = named_target("sm_90a");
  EXPECT_FALSE(lay_out_factors(turned_matmul(64, 64, 128, true, false), target, Worth::Always));
  EXPECT_FALSE(lay_out_factors(convolution(2, 64, 64, 6, 3, dtypes::BFloat16), target));
  EXPECT_TRUE(lay_out_factors(convolution(64, 256, 256, 56, 3, dtypes::BFloat16), target));
  EXPECT_FALSE(lay_out_factors(convolution(64, 256, 256, 56, 3, dtypes::BFloat16), named_target("sm_80")));
}

bool has_tile(Node kernel) {
  const std::vector<Opt> opts = choose_options(kernel, named_target("sm_90a"));
  int stages = 0;
  for (const Opt& opt : opts) stages += opt.op == OptOp::STAGE;
  return stages == 2;
}

TEST(GroupTiles, OfProductsBesideAShortSumAndOfSidesAlongSeveralShortRanges) {
  Scope scope;
  const Target target = named_target("sm_90a");
  // The gradient of the weights of a first layer: 3 x 7 x 7 rows.
  for (Node kernel : {product_over_window(48, 64, 40), weight_gradient(2, 16, 6, 5)}) {
    EXPECT_TRUE(has_tile(kernel));
    EXPECT_EQ(compare_with_reference(kernel, choose_options(kernel, target), target, 5), "");
  }
}

// The sums of parts, and the sum of those.
TEST(SplitSums, StoreWhatTheWholeSumStores) {
  Scope scope;
  const Target target = named_target("sm_90a");
  Node kernel = bf16_matmul(64, 64, 24, 2);
  const std::optional<SplitSum> split = split_sum(kernel, target, Worth::Always);
  ASSERT_TRUE(split.has_value());
  EXPECT_FALSE(split_sum(kernel, target).has_value());
  EXPECT_FALSE(split_sum(bf16_matmul(8192, 8192, 8192), target).has_value());
  EXPECT_TRUE(split_sum(bf16_matmul(256, 2304, 200704), target).has_value());
  Array x = whole_numbers(param(dtypes::BFloat16, 1, 64 * 24), 1),
        y = whole_numbers(param(dtypes::BFloat16, 2, 24 * 64), 2), out(dtypes::BFloat16, 64 * 64), got = out,
        parts(dtypes::Float32, split->size);
  evaluate(kernel, {&out, &x, &y});
  evaluate(split->parts, {&parts, &x, &y});
  evaluate(split->whole, {&got, &x, &y, &parts});
  for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(out.number(i), got.number(i)) << i;
}

}  // namespace
}  // namespace lathe::test
