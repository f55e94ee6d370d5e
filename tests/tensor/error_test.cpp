// The texts of refusals: the op, what was found against what was needed, and a way out.
#include "tensor/values.h"

namespace lathe {
namespace {

using testing::message_of;

struct Refusal {
  const char* message;
  std::function<void()> call;
};

TEST(TensorErrors, ShapesThatDoNotFitAreNamed) {
  Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({4, 3}), c = Tensor::zeros({3, 2});
  const Refusal rows[] = {
      {"add: shapes (2, 3) and (4, 3) do not broadcast: 2 against 4", [&] { a + b; }},
      {"matmul: inner sizes differ: lhs (2, 3) has 3, rhs (2, 3) has 2", [&] { a.dot(a); }},
      {"matmul: a scalar has no axis to multiply over: () and (2, 3)", [&] { Tensor(1.0).dot(a); }},
      {"reshape: (2, 3) has 6 elements, which do not fill (4, 2)", [&] { a.reshape({4, 2}); }},
      {"reshape: (2, 3) has 6 elements, which do not fill (4, -1)", [&] { a.reshape({4, -1}); }},
      {"reshape: more than one size is -1", [&] { a.reshape({-1, -1}); }},
      {"expand: shape (2, 3) does not broadcast to (4, 3)", [&] { a.expand({4, 3}); }},
      {"permute: (0, 0) is not a permutation of the 2 axes of (2, 3)", [&] { a.permute({0, 0}); }},
      {"sum: axis 2 is outside a tensor of 2 axes", [&] { a.sum(2); }},
      {"sum: an axis is named twice", [&] { a.sum({0, -2}); }},
      {"max: axis 0 of (0,) has no elements, so there is no max", [&] { Tensor::zeros({0}).max(); }},
      {"shrink: [1, 4) is not within axis 1 of (2, 3)", [&] { a.shrink({{0, 2}, {1, 4}}); }},
      {"cat: (2, 3) and (3, 2) cannot be joined along axis 0", [&] { Tensor::cat({a, c}); }},
      {"stack: shapes (2, 3) and (3, 2) differ", [&] { Tensor::stack({a, c}); }},
      {"split: the size of a part is 0", [&] { a.split(0); }},
      {"split: the size of a part is -1", [&] { a.split(std::vector<std::int64_t>{3, -1}); }},
      {"split: sizes add up to 4, axis 0 of (2, 3) has 2", [&] { a.split(std::vector<std::int64_t>{1, 3}); }},
      {"getitem: index 2 is out of bounds for axis 0 of size 2", [&] { a[2]; }},
      {"getitem: 3 indices are too many for the 2 axes of (2, 3)", [&] { a.getitem({0, 0, 0}); }},
      {"getitem: an index of dtype float32", [&] { a[Tensor({0.5})]; }},
      {"assign: shape (4, 3) does not broadcast to (2, 3)", [&] { a.assign(b); }},
      {"gather: an index of shape (2,) does not fit (2, 3) along axis 0",
       [&] { a.gather(0, Tensor({0, 1})); }},
      {"conv2d: input (1, 3, 8, 8) has 3 channels, weight (4, 2, 3, 3) takes 2 in 1 groups",
       [&] { Tensor::zeros({1, 3, 8, 8}).conv2d(Tensor::zeros({4, 2, 3, 3})); }},
      {"windows: a window reaching over 3 elements does not fit an axis of 2",
       [&] { Tensor::zeros({1, 1, 2, 2}).conv2d(Tensor::zeros({1, 1, 3, 3})); }},
      {"einsum: \"ij,jk->ik\" names 2 operands, 1 were given", [&] { Tensor::einsum("ij,jk->ik", {a}); }},
      {"item: the tensor has shape (2, 3), which is not one element", [&] { a.item(); }},
      {"tensor: 3 values do not fill shape (2, 2)", [&] { Tensor(std::vector<float>{1, 2, 3}, {2, 2}); }},
      {"tensor: a list has 1 elements where 2 are expected", [&] { Tensor({{1, 2}, {3}}); }},
      {"tensor: an empty Tensor was used", [&] { Tensor() + 1; }},
      {"topk: 4 of the 3 elements of axis 1", [&] { a.topk(4); }},
      {"full: size -1 of (-1,) is negative", [&] { Tensor::zeros({-1}); }},
      {"rearrange: the two sides of \"a b -> a\" do not name the same axes",
       [&] { a.rearrange("a b -> a"); }},
  };
  for (const Refusal& row : rows) EXPECT_EQ(message_of(row.call), row.message);
}

TEST(TensorErrors, DtypesThatDoNotFitAreNamed) {
  Tensor f({1.0}), b({true});
  EXPECT_EQ(message_of([&] { f & f; }), "bitwise_and: bit operations are not defined on float32");
  EXPECT_EQ(message_of([&] { b - b; }), "sub: bool tensor where a number is needed");
  EXPECT_EQ(message_of([&] { Tensor({2}).pow(-1); }), "pow: int32 to the power -1 is not an integer");
  EXPECT_EQ(message_of([&] { dtypes::parse("flaot32"); }), "dtype: \"flaot32\" names no dtype");
  EXPECT_EQ(message_of([&] { Tensor::rand({2}, {.dtype = dtypes::int32}); }),
            "rand: int32 is not a float dtype");
}

TEST(TensorErrors, MixingDevicesNamesBothTensors) {
  Tensor a = Tensor::zeros({2}, {.device = "CPU"}), b = Tensor::zeros({3}, {.device = "CPU:1"});
  const std::string text = "tensors are on different devices: (2,) float32 on CPU and (3,) float32 on CPU:1";
  EXPECT_EQ(message_of([&] { a + b; }), "add: " + text);
  EXPECT_EQ(message_of([&] { a.assign(b); }), "assign: " + text);
  EXPECT_EQ(message_of([&] { Tensor::cat({a, b}); }), "cat: " + text);
  EXPECT_EQ(message_of([&] { a.dot(b); }), "matmul: " + text);
}

TEST(TensorErrors, AnErrorOffersAWayOut) {
  try {
    Tensor::zeros({4, 8}).dot(Tensor::zeros({16, 8}));
    FAIL() << "nothing was thrown";
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "lathe: matmul: inner sizes differ: lhs (4, 8) has 8, rhs (16, 8) has 16\n"
                 "  help: rhs.transpose() has shape (8, 16)");
  }
}

TEST(TensorDevices, OneDeviceHasOneNameAndOpsKeepIt) {
  EXPECT_EQ(canonical_device("cpu:0"), "CPU");
  EXPECT_EQ(canonical_device("CPU:1"), "CPU:1");
  Tensor x = Tensor::zeros({2, 2}, {.device = "CPU:1"});
  for (const Tensor& t : {x + 1, x.sum(), x.T(), x[0], x.softmax(), x.dot(x), x.argmax(), x.sort().first,
                          x.cumsum(), x.rand_like(), x.triu(), x.cast(dtypes::int32), x.zeros_like()})
    EXPECT_EQ(t.device(), "CPU:1");
}

}  // namespace
}  // namespace lathe
