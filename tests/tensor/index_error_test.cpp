// Indices that turn out to be outside when the kernel runs: told by the next call that reads, in the name of
// the op, on every device that computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "engine/engine.h"
#include "lathe/jit.h"
#include "lathe/lathe.h"
#include "values.h"

namespace lathe {
namespace {

using lathe::testing::expect_values;
using lathe::testing::message_of;

class IndexErrors : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      Tensor::ones({1}, {.device = device()}).contiguous().realize();
    } catch (const DeviceError& e) {
      GTEST_SKIP() << e.what();
    }
  }
  std::string device() const { return GetParam(); }
  Tensor numbers(std::int64_t n) const {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i) + 0.5f;
    return Tensor(v, {.device = device()});
  }
  Tensor indices(const std::vector<std::int64_t>& v, DataType dtype = dtypes::int32) const {
    return Tensor(v, {.device = device()}).cast(dtype).realize();
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, IndexErrors, ::testing::Values("CPU", "CPU:1", "REF", "CUDA"),
                         [](const auto& p) {
                           std::string name = p.param;
                           std::replace(name.begin(), name.end(), ':', '_');
                           return name;
                         });

TEST_P(IndexErrors, EveryOpThatTakesIndicesNamesTheOneThatIsOutside) {
  const Tensor x = numbers(10), m = numbers(12).reshape({3, 4});
  struct Row {
    const char* expected;
    std::function<Tensor()> build;
  };
  const Row rows[] = {
      {"gather: index 10 is outside an axis of size 10", [&] { return x.gather(0, indices({1, 10})); }},
      {"gather: index -11 is outside an axis of size 10", [&] { return x.gather(0, indices({-11, 1})); }},
      {"embedding: index 3 is outside an axis of size 3", [&] { return m.embedding(indices({0, 3})); }},
      {"getitem: index 99 is outside an axis of size 10", [&] { return x.getitem({indices({99})}); }},
      {"getitem: index 4 is outside an axis of size 4",
       [&] { return m.getitem({indices({0, 2}), indices({3, 4})}); }},
      {"scatter: index 12 is outside an axis of size 10",
       [&] { return x.scatter(0, indices({1, 12}), numbers(2)); }},
      {"scatter_reduce: index 10 is outside an axis of size 10",
       [&] { return x.scatter_reduce(0, indices({1, 10}), numbers(2), "sum"); }},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(message_of([&] { row.build().tolist(); }), row.expected);
    EXPECT_THROW(row.build().tolist(), IndexError) << row.expected;
    EXPECT_EQ(message_of([&] { row.build().sum().item(); }), row.expected);
  }
}

TEST_P(IndexErrors, ValuesThatWouldWrapAroundAreOutsideToo) {
  const Tensor x = numbers(300);
  const std::int64_t far = (std::int64_t{1} << 32) + 1;
  EXPECT_EQ(message_of([&] { x.gather(0, indices({far}, dtypes::int64)).tolist(); }),
            "gather: index 4294967297 is outside an axis of size 300");
  expect_values(x.gather(0, indices({-1, 100}, dtypes::int8)), {299.5, 100.5});
  expect_values(x.gather(0, indices({255}, dtypes::uint8)), {255.5});
  expect_values(x.gather(0, indices({299}, dtypes::uint64)), {299.5});
}

TEST_P(IndexErrors, TheNoteNamesTheKernelItsDeviceAndItsOps) {
  try {
    numbers(10).gather(0, indices({10})).tolist();
    FAIL() << "nothing was thrown";
  } catch (const IndexError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("found by kernel "), std::string::npos) << text;
    EXPECT_NE(text.find(" on " + device()), std::string::npos) << text;
  }
}

TEST_P(IndexErrors, AreToldOnceAndTheNextResultIsRight) {
  const Tensor x = numbers(10);
  EXPECT_THROW(x.gather(0, indices({10})).tolist(), IndexError);
  expect_values(x.gather(0, indices({9, 0, -10})), {9.5, 0.5, 0.5});
  synchronize();
}

TEST_P(IndexErrors, EveryReadTellsThemAndTellsThemAgain) {
  const Tensor y = numbers(10).gather(0, indices({1, 10}));
  const std::string expected = "gather: index 10 is outside an axis of size 10";
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(message_of([&] { y.tolist(); }), expected);
    EXPECT_EQ(message_of([&] { y.bytes(); }), expected);
    EXPECT_EQ(message_of([&] { y.to("CPU").data<float>(); }), expected);
    EXPECT_EQ(message_of([&] { y.to("CPU").contiguous().host_data(); }), expected);
  }
}

TEST_P(IndexErrors, AreToldOfWhatDependsOnThemAndOfNothingElse) {
  const Tensor x = numbers(10);
  Tensor bad = x.gather(0, indices({1, 10})).realize(), good = x.gather(0, indices({1, 9})).realize();
  Tensor from_bad = (bad * 2).realize(), both = (from_bad + good).realize();
  Tensor total = Tensor::zeros({2}, {.device = device()}).contiguous().realize();
  total.assign(both).realize();
  expect_values(good, {1.5, 9.5});
  expect_values((good + 1), {2.5, 10.5});
  for (const Tensor& t : {both, bad, from_bad, total, total + 1})
    EXPECT_EQ(message_of([&] { t.tolist(); }), "gather: index 10 is outside an axis of size 10");
  total.assign(good).realize();  // what it held is gone
  expect_values(total, {1.5, 9.5});
}

TEST_P(IndexErrors, TheLineIsThatOfTheLaunchThatWasWrong) {
  const Tensor x = numbers(10), first = indices({3, 10}), second = indices({3, 4});
  Tensor bad, good;
  {
    const MadeAt here("the first line");
    bad = x.gather(0, first);
    bad.realize();
  }
  {
    const MadeAt here("the second line");
    good = x.gather(0, second);
    good.realize();
  }
  expect_values(good, {3.5, 4.5});
  try {
    bad.tolist();
    FAIL() << "nothing was thrown";
  } catch (const IndexError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("made at the first line"), std::string::npos) << text;
    EXPECT_EQ(text.find("the second line"), std::string::npos) << text;
  }
}

TEST_P(IndexErrors, NothingIsWrittenToAFile) {
  const std::string file = ::testing::TempDir() + "/lathe-index-error.bin";
  std::remove(file.c_str());
  const Tensor y = numbers(10).gather(0, indices({1, 10}));
  EXPECT_EQ(message_of([&] { y.to("DISK:" + file).realize(); }),
            "gather: index 10 is outside an axis of size 10");
  // Not even the element that was read from a place inside.
  std::ifstream written(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(written)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(std::ranges::all_of(bytes, [](char c) { return c == 0; })) << bytes.size() << " bytes";
  std::remove(file.c_str());
}

TEST_P(IndexErrors, ManyUncheckedLaunchesAreAllTold) {
  Tensor sum = Tensor::zeros({2}, {.device = device()}).contiguous().realize();
  const Tensor x = numbers(10), good = indices({1, 2}), bad = indices({1, 10});
  for (int i = 0; i < 100; ++i) sum.assign(sum + x.gather(0, i == 3 ? bad : good)).realize();
  EXPECT_THROW(sum.tolist(), IndexError);
  EXPECT_THROW(sum.tolist(), IndexError);
}

TEST_P(IndexErrors, SynchronizeTellsThem) {
  Tensor y = numbers(10).gather(0, indices({10})).realize();
  EXPECT_THROW(synchronize(), IndexError);
  synchronize();
}

TEST_P(IndexErrors, AStoreOutsideIsNotDone) {
  Tensor x = numbers(6).realize();
  EXPECT_EQ(message_of([&] {
              x.setitem({indices({1, 6})}, 9);
              x.tolist();
            }),
            "setitem: index 6 is outside an axis of size 6");
  expect_values(x, {0.5, 9, 2.5, 3.5, 4.5, 5.5});
}

TEST_P(IndexErrors, WhatIsPaddedAroundAResultIsNotChecked) {
  const Tensor x = numbers(5);
  // Shifted, so that the 0 a padded load gives would be outside.
  Tensor picked = x.gather(0, indices({0, 1, 2}) - 7 + 2 + 5);
  expect_values(picked.pad({{2, 2}}), {0, 0, 0.5, 1.5, 2.5, 0, 0});
  Tensor nothing = numbers(0).gather(0, Tensor::empty({0}, {.dtype = dtypes::int32, .device = device()}));
  expect_values(nothing.pad({{1, 1}}), {0, 0});
}

TEST_P(IndexErrors, PrimeSizesAndReducesRaiseNoFalseAlarm) {
  for (std::int64_t n : {1, 2, 3, 7, 13, 31, 67, 131}) {
    std::vector<std::int64_t> at(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = static_cast<std::int64_t>(i) - n;
    // Where a load beyond the end gives 0, the index would be n, which is outside.
    Tensor index = indices(at) + n, x = numbers(n);
    EXPECT_NEAR(x.gather(0, index).sum().item(), x.sum().item(), 1e-2) << n;
    expect_values(x.gather(0, index), x.tolist());
  }
}

TEST_P(IndexErrors, AReplayTellsThem) {
  Jit pick =
      jit([](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0].gather(0, in[1])}; });
  const Tensor x = numbers(4);
  for (int call = 0; call < 3; ++call) expect_values(pick({x, indices({3, 0})})[0], {3.5, 0.5});
  ASSERT_TRUE(pick.captured());
  EXPECT_EQ(message_of([&] { pick({x, indices({3, 4})})[0].tolist(); }),
            "gather: index 4 is outside an axis of size 4");
  expect_values(pick({x, indices({2, 1})})[0], {2.5, 1.5});
}

TEST_P(IndexErrors, MaskedSelectAndOneHotHaveNoneToTell) {
  const Tensor x = numbers(4);
  expect_values(x.masked_select(x > 1, 6, -1), {1.5, 2.5, 3.5, -1, -1, -1});
  expect_values(numbers(0).masked_select(numbers(0) > 1, 2, -1), {-1, -1});
  expect_values(indices({5, 1}).one_hot(3), {0, 0, 0, 0, 1, 0});
}

TEST(IndexErrorsOfLosses, AClassThatDoesNotExistIsTold) {
  const Tensor logits = Tensor::ones({2, 3}).contiguous().realize();
  const Tensor wrong(std::vector<std::int32_t>{1, 3}), ignored(std::vector<std::int32_t>{1, -100});
  EXPECT_THROW(logits.cross_entropy(wrong).item(), IndexError);
  EXPECT_NEAR(logits.cross_entropy(ignored, {.ignore_index = -100}).item(), std::log(3.0), 1e-5);
}

TEST(IndexErrorsOnNull, NothingRunsSoNothingIsTold) {
  const Tensor x = Tensor::ones({4}, {.device = "NULL"}).contiguous().realize();
  const Tensor at = Tensor::full({2}, 9, {.dtype = dtypes::int32, .device = "NULL"}).contiguous().realize();
  EXPECT_NO_THROW(x.gather(0, at).realize());
  EXPECT_NO_THROW(synchronize());
}

}  // namespace
}  // namespace lathe
