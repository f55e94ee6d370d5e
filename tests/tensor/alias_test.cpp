// Stores are versions: all aliases see a write at their next use, graphs already built keep what they named.
#include <thread>

#include "tensor/values.h"

namespace lathe {
namespace {

using testing::expect_values;
using testing::message_of;

TEST(Alias, AViewSeesAWriteToItsBase) {
  Tensor x = Tensor::arange(6).reshape({2, 3}), row = x[1], turned = x.T();
  x += 10;
  expect_values(row, {13, 14, 15});
  expect_values(turned, {10, 13, 11, 14, 12, 15});
}

TEST(Alias, TheBaseSeesAWriteThroughAView) {
  Tensor x = Tensor::arange(6).reshape({2, 3}).contiguous().realize();
  x[1] += 10;
  expect_values(x, {0, 1, 2, 13, 14, 15});
  x.T()[0].assign(7);
  expect_values(x, {7, 1, 2, 7, 14, 15});
  x.getitem({Slice{}, Slice{{}, {}, 2}}).assign(-1);
  expect_values(x, {-1, 1, -1, -1, 14, -1});
  x.diagonal().assign(5);
  expect_values(x, {5, 1, -1, -1, 5, -1});
  x.flip(1)[0].assign(Tensor({1, 2, 3}));
  expect_values(x, {3, 2, 1, -1, 5, -1});
}

TEST(Alias, WritingWorksBeforeAnythingWasComputed) {
  Tensor x = Tensor::zeros({2, 2}, {.dtype = dtypes::int32});
  Tensor before = x + 1;
  x.setitem({0, 1}, 5);
  x.setitem({1}, Tensor({6, 7}));
  expect_values(x, {0, 5, 6, 7});
  expect_values(before, {1, 1, 1, 1});
}

// The view is all that is left of what was written, and its expression is kept for backward.
TEST(Alias, ATrackedViewOfAWrittenTensorStaysAView) {
  Tensor x = Tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}).requires_grad_();
  auto written = [&] {
    Tensor copy = x.clone();
    copy.setitem({Slice{0, 2}}, -1);
    return copy;
  };
  expect_values(written().flip(0), {6, 5, 4, 3, -1, -1});
  expect_values(written().reshape({2, 3}).permute({1, 0}), {-1, 4, -1, 5, 3, 6});
  Tensor last = written().getitem({Slice{{}, {}, -2}});
  (last * last).sum().backward();
  expect_values(last, {6, 4, -1});
  expect_values(*x.grad(), {0, 0, 0, 8, 0, 12});
}

TEST(Alias, AGraphKeepsTheVersionItNamed) {
  Tensor x({1.0, 2.0, 3.0});
  Tensor y = x * 2;
  x += 1;
  Tensor z = x * 2;
  expect_values(x, {2, 3, 4});
  expect_values(y, {2, 4, 6});
  expect_values(z, {4, 6, 8});
}

TEST(Alias, AnOverlappingUpdateReadsTheOldValues) {
  Tensor x = Tensor({1, 2, 3, 4}).realize();
  Tensor tail = x.getitem({Slice{1}}), head = x.getitem({Slice{{}, -1}});
  tail += head;
  expect_values(x, {1, 3, 5, 7});
}

TEST(Alias, TwoBuffersCanSwapContents) {
  Tensor a({1, 2}), b({3, 4});
  Tensor old_a = a + 0, old_b = b + 0;
  a.assign(old_b);
  b.assign(old_a);
  Tensor::realize_all(std::vector<Tensor>{a, b});
  expect_values(a, {3, 4});
  expect_values(b, {1, 2});
}

TEST(Alias, ManyUpdatesInOneGraphHappenInOrder) {
  Tensor x({0, 0});
  for (int i = 0; i < 5; ++i) {
    x += 1;
    x.setitem({0}, x[0] * 2);
  }
  expect_values(x, {62, 5});
}

TEST(Alias, TheSameUpdateCanHappenAgain) {
  Tensor x({1, 2});
  Tensor y;
  for (int i = 0; i < 4; ++i) {
    x += 1;
    if (i == 0) y = x * 10;  // still names the first version
    x.realize();
  }
  expect_values(x, {5, 6});
  expect_values(y, {20, 30});
}

TEST(Alias, EqualExpressionsDoNotShareWrites) {
  Tensor a({1, 2}), x = a + 1, y = a + 1;
  x.realize();
  y.realize();
  x += 10;
  expect_values(x, {12, 13});
  expect_values(y, {2, 3});
}

TEST(Alias, ACloneIsItsOwn) {
  Tensor a({1, 2}), b = a.clone();
  a += 1;
  expect_values(b, {1, 2});
  b += 5;
  expect_values(a, {2, 3});
  expect_values(b, {6, 7});
}

TEST(Alias, ADetachedTensorSharesItsStorage) {
  Tensor a({1.0, 2.0}), b = a.detach();
  a += 1;
  expect_values(b, {2, 3});
}

TEST(Alias, WritingThroughAnExpandedViewIsRefused) {
  Tensor x = Tensor({1, 2}).realize();
  Tensor wide = x.reshape({2, 1}).expand({2, 3});
  EXPECT_EQ(message_of([&] { wide += 1; }),
            "assign: the target is an expanded view, in which several elements share memory");
}

TEST(Alias, ACacheRowIsWrittenAndReadInOneGraph) {
  Tensor cache = Tensor::zeros({4, 2}).contiguous().realize();
  for (std::int64_t position = 0; position < 3; ++position) {
    cache.setitem({position}, Tensor({1.0, 2.0}) * (position + 1));
    expect_values(cache.sum(0),
                  {(position + 1) * (position + 2) / 2.0, (position + 1) * (position + 2) * 1.0});
  }
}

TEST(Alias, AssignCastsAndBroadcasts) {
  Tensor x = Tensor::zeros({2, 2}).contiguous().realize();
  x.assign(Tensor({1, 2}));
  expect_values(x, {1, 2, 1, 2});
  EXPECT_EQ(x.dtype(), dtypes::float32);
}

TEST(Alias, ReplaceTakesOverAnotherStorage) {
  Tensor x({1, 2}), view = x[0], y({3, 4});
  x.replace(y);
  expect_values(x, {3, 4});
  expect_values(view, {1});
}

TEST(Alias, ReplaceMayBringAnotherDtypeAndDevice) {
  Tensor x({1.5, 2.5}), leaf = Tensor({1.0}).requires_grad_();
  x.replace(Tensor({3.0, 4.0}).cast(dtypes::float16));
  EXPECT_EQ(x.dtype(), dtypes::float16);
  expect_values(x, {3, 4});
  x.replace(Tensor({5, 6}).to("REF"));
  EXPECT_EQ(x.device(), "REF");
  expect_values(x, {5, 6});
  EXPECT_THROW(x.replace(Tensor({1, 2, 3})), UserError);
  x.replace(Tensor({1, 2, 3}), true);
  expect_values(x, {1, 2, 3});
  EXPECT_THROW(leaf.replace(Tensor({1})), UserError);
}

TEST(Alias, ThreadsMayBuildAndRealizeTheirOwnTensors) {
  std::vector<std::thread> threads;
  std::vector<double> sums(4, 0);
  for (std::size_t t = 0; t < sums.size(); ++t)
    threads.emplace_back([&sums, t] {
      Tensor x = Tensor::full({16}, 0, {.dtype = dtypes::float32}).contiguous();
      for (int i = 0; i < 5; ++i) x += static_cast<double>(t);
      sums[t] = x.sum().item();
    });
  for (std::thread& t : threads) t.join();
  for (std::size_t t = 0; t < sums.size(); ++t) EXPECT_EQ(sums[t], 16.0 * 5 * static_cast<double>(t));
}

}  // namespace
}  // namespace lathe
