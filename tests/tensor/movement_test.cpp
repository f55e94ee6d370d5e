// Movement ops: shapes and values against index arithmetic done by hand.
#include "tensor/values.h"

namespace lathe {
namespace {

using testing::expect_shape;
using testing::expect_values;

Tensor grid(std::int64_t rows, std::int64_t columns) {
  return Tensor::arange(rows * columns).reshape({rows, columns});
}

TEST(Movement, ReshapeInfersOneSize) {
  expect_shape(grid(3, 4).reshape({2, -1}), {2, 6});
  expect_shape(grid(3, 4).reshape({-1}), {12});
  expect_shape(Tensor(5).reshape({1, 1}), {1, 1});
  expect_values(grid(2, 3).reshape({3, 2}).T(), {0, 2, 4, 1, 3, 5});
}

TEST(Movement, PermuteTransposeAndMovedim) {
  Tensor x = Tensor::arange(24).reshape({2, 3, 4});
  expect_shape(x.permute({2, 0, 1}), {4, 2, 3});
  expect_shape(x.transpose(0, -1), {4, 3, 2});
  expect_shape(x.movedim(0, -1), {3, 4, 2});
  expect_shape(x.T(), {4, 3, 2});
  expect_values(grid(2, 3).transpose(), {0, 3, 1, 4, 2, 5});
}

TEST(Movement, ExpandKeepsMinusOneAndAddsLeadingAxes) {
  expect_values(Tensor({{1}, {2}}).expand({-1, 3}), {1, 1, 1, 2, 2, 2});
  expect_shape(Tensor({1, 2}).expand({3, 2}), {3, 2});
}

TEST(Movement, PadShrinkAndFlip) {
  expect_values(Tensor({1, 2}).pad({{1, 2}}), {0, 1, 2, 0, 0});
  expect_values(Tensor({1, 2}).pad({{1, 0}}, 7), {7, 1, 2});
  expect_values(Tensor({1, 2, 3, 4}).pad({{-1, 1}}), {2, 3, 4, 0});
  expect_values(grid(2, 3).shrink({{0, 2}, {1, 3}}), {1, 2, 4, 5});
  expect_values(grid(2, 3).flip({0, 1}), {5, 4, 3, 2, 1, 0});
}

TEST(Movement, PaddingModes) {
  Tensor x({1, 2, 3});
  expect_values(x.pad({2, 1}, "reflect"), {3, 2, 1, 2, 3, 2});
  expect_values(x.pad({2, 1}, "replicate"), {1, 1, 1, 2, 3, 3});
  expect_values(x.pad({2, 1}, "circular"), {2, 3, 1, 2, 3, 1});
}

TEST(Movement, SqueezeUnsqueezeFlattenUnflatten) {
  Tensor x = Tensor::zeros({1, 2, 1, 3});
  expect_shape(x.squeeze(), {2, 3});
  expect_shape(x.squeeze(0), {2, 1, 3});
  expect_shape(x.squeeze(1), {1, 2, 1, 3});
  expect_shape(x.unsqueeze(-1), {1, 2, 1, 3, 1});
  expect_shape(x.flatten(1), {1, 6});
  expect_shape(x.flatten().unflatten(0, {2, -1}), {2, 3});
}

TEST(Movement, CatAndStackJoinAndPromote) {
  Tensor a({{1, 2}}), b({{3.5, 4.5}});
  expect_values(Tensor::cat({a, b}), {1, 2, 3.5, 4.5});
  EXPECT_EQ(Tensor::cat({a, b}).dtype(), dtypes::float32);
  expect_values(Tensor::cat({a, a}, 1), {1, 2, 1, 2});
  expect_values(Tensor::stack({Tensor({1, 2}), Tensor({3, 4})}, 1), {1, 3, 2, 4});
  expect_values(a.cat(a, -1), {1, 2, 1, 2});
}

TEST(Movement, CatKeepsTheSignOfZeroAndNan) {
  Tensor x = Tensor::cat({Tensor({-0.0, NAN}), Tensor({INFINITY, -0.0})});
  std::vector<double> v = x.tolist();
  EXPECT_TRUE(std::signbit(v[0]));
  EXPECT_TRUE(std::isnan(v[1]));
  EXPECT_TRUE(std::isinf(v[2]));
  EXPECT_TRUE(std::signbit(v[3]));
}

TEST(Movement, SplitAndChunk) {
  std::vector<Tensor> parts = Tensor::arange(7).split(3);
  ASSERT_EQ(parts.size(), 3u);
  expect_values(parts[2], {6});
  parts = Tensor::arange(7).split(std::vector<std::int64_t>{2, 5});
  expect_values(parts[1], {2, 3, 4, 5, 6});
  EXPECT_EQ(Tensor::arange(7).chunk(3).size(), 3u);
  EXPECT_EQ(Tensor::zeros({2, 0}).chunk(3, 1).size(), 3u);
  EXPECT_EQ(Tensor::zeros({0}).split(0).size(), 1u);
}

TEST(Movement, RepeatRollAndInterleave) {
  expect_values(Tensor({1, 2}).repeat({2, 2}), {1, 2, 1, 2, 1, 2, 1, 2});
  expect_values(Tensor({1, 2}).repeat_interleave(2), {1, 1, 2, 2});
  expect_values(Tensor({1, 2, 3}).roll(1, 0), {3, 1, 2});
  expect_values(Tensor({1, 2, 3}).roll(-4, 0), {2, 3, 1});
  expect_values(grid(2, 2).roll(1), {3, 0, 1, 2});
}

TEST(Movement, DiagonalsAndTriangles) {
  expect_values(grid(3, 4).diagonal(), {0, 5, 10});
  expect_values(grid(3, 4).diagonal(1), {1, 6, 11});
  expect_values(grid(3, 4).diagonal(-1), {4, 9});
  expect_values(Tensor({1, 2}).diag(), {1, 0, 0, 2});
  expect_values(grid(2, 3).triu(1), {0, 1, 2, 0, 0, 5});
  expect_values(grid(2, 3).tril(), {0, 0, 0, 3, 4, 0});
  expect_shape(Tensor::zeros({2, 3, 4}).diagonal(0, 0, 2), {3, 2});
}

TEST(Movement, UnfoldMakesWindows) {
  expect_values(Tensor::arange(6).unfold(0, 3, 2), {0, 1, 2, 2, 3, 4});
  expect_shape(Tensor::zeros({4, 5}).unfold(0, 2, 1), {3, 5, 2});
}

TEST(Movement, RearrangeNamesAxes) {
  Tensor x = Tensor::arange(12).reshape({3, 4});
  expect_shape(x.rearrange("a b -> b a"), {4, 3});
  expect_shape(x.rearrange("a (b c) -> (a b) c", {{"c", 2}}), {6, 2});
  expect_shape(Tensor::zeros({2, 3, 4}).rearrange("... c -> c ..."), {4, 2, 3});
  expect_values(x.rearrange("a b -> (a b)"), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST(Movement, MeshgridArangeLinspaceEye) {
  auto grids = Tensor::meshgrid({Tensor({1, 2}), Tensor({3, 4, 5})});
  expect_values(grids[0], {1, 1, 1, 2, 2, 2});
  expect_values(grids[1], {3, 4, 5, 3, 4, 5});
  expect_shape(Tensor::meshgrid({Tensor({1, 2}), Tensor({3, 4, 5})}, "xy")[0], {3, 2});
  expect_values(Tensor::arange(2, 9, 3), {2, 5, 8});
  expect_values(Tensor::arange(5, 0, -2), {5, 3, 1});
  expect_values(Tensor::arange(0.0, 1.0, 0.25), {0, 0.25, 0.5, 0.75});
  expect_values(Tensor::linspace(0, 1, 5), {0, 0.25, 0.5, 0.75, 1});
  expect_values(Tensor::eye(2, 3), {1, 0, 0, 0, 1, 0});
  expect_shape(Tensor::arange(0), {0});
}

TEST(Movement, SizesOfZeroAreAllowed) {
  Tensor none = Tensor::zeros({0, 3});
  EXPECT_TRUE(none.tolist().empty());
  expect_values(none.sum(0), {0, 0, 0});
  expect_values(Tensor::cat({none, Tensor::ones({1, 3})}), {1, 1, 1});
  expect_shape(none.reshape({3, 0}), {3, 0});
}

}  // namespace
}  // namespace lathe
