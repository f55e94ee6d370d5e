// LATHE_CHECK and captures: a kernel that was replaced stays replaced in replays and in saved programs.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/env.h"
#include "base/error.h"
#include "capture/ramp.h"
#include "engine/compile_context.h"
#include "engine/engine.h"
#include "engine/kernel_check.h"
#include "ir/build.h"
#include "ir/walk.h"
#include "lathe/jit.h"
#include "lathe/variable.h"

namespace lathe {
namespace {

// Kernels with options multiply where they should add.
struct WrongWithOptions : StepSink {
  void kernel(const StepInfo& step, Node& kernel) override {
    if (step.name != std::string_view("option_ranges")) return;
    NodeMap<Node> map;
    bool copies = false;
    for (Node n : toposort(kernel)) {
      copies |= n.is(Op::Range) && range_kind(n) == RangeKind::Upcast;
      if (n.is(Op::Add) && n.dtype().is_float()) map[n] = n.arg(0) * n.arg(1);
    }
    if (copies && !map.empty()) kernel = substitute(kernel, map);
  }
};

TEST(CheckedCapture, AReplacedKernelIsReplacedInReplaysAndInTheSavedProgram) {
  const FlagScope first(Flag::Check, "first"), cache(Flag::Cache, "off");
  char pattern[] = "/tmp/lathe-checked-capture-XXXXXX";
  const std::filesystem::path folder = mkdtemp(pattern);
  engine::drop_caches();
  const std::uint64_t replaced = engine::check_counts().replaced;
  auto f = jit([](const Tensors& in) -> Tensors { return {in[0] + in[1]}; });
  const auto sum = [](auto& function, int i) {
    return function({ramp(40, i), ramp(40, 10 * i)})[0].template data<float>()[39];
  };
  {
    WrongWithOptions fault;
    const engine::ExperimentScope scope({.sink = &fault});
    testing::internal::CaptureStderr();
    for (int i = 1; i < 5; ++i) EXPECT_EQ(sum(f, i), 11 * i + 78);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("it now runs without"), std::string::npos);
  }
  EXPECT_GT(engine::check_counts().replaced, replaced);
  f.save(folder / "f");
  engine::reset_counters();
  Jit loaded = Jit::load(folder / "f");
  for (int i = 1; i < 3; ++i) EXPECT_EQ(sum(loaded, i), 11 * i + 78);
  EXPECT_EQ(engine::counters().compiles, 0u);
  std::filesystem::remove_all(folder);
}

// Kernels are wrong at one value of their variable.
struct WrongAt : StepSink {
  explicit WrongAt(std::int64_t value) : value_(value) {}
  void kernel(const StepInfo& step, Node& kernel) override {
    if (step.name != std::string_view("option_ranges")) return;
    NodeMap<Node> map;
    Node size;
    const std::vector<Node> order = toposort(kernel);
    for (Node n : order)
      if (n.is(Op::Var)) size = n;
    for (Node n : order)
      if (size && n.is(Op::Load) && n.dtype() == dtypes::Float32)
        map[n] = where(equal(size, index_const(value_)), n + float_const(dtypes::Float32, 1), n);
    if (!map.empty()) kernel = substitute(kernel, map);
  }
  std::int64_t value_;
};

// A kernel with a symbolic size passes at one size and is wrong at another: the check sees each remainder of
// what the options split by once, and the least and the greatest size.
TEST(CheckedCapture, ASymbolicKernelIsCheckedAtEveryRemainderOfItsSplits) {
  const FlagScope strict(Flag::Check, "strict"), cache(Flag::Cache, "off");
  constexpr int kMost = 4000, kMultiple = 32 * 3 * 5 * 7;  // of what options split by
  const Variable n("n", 1, kMost);
  Tensor x = ramp(kMost, 0) * 0.25;
  x.realize();
  const auto checks_at = [&](int size) {
    const std::uint64_t passed = engine::check_counts().passed;
    const Tensor part = x.shrink({{0, n.bind(size)}});
    EXPECT_EQ((part * 2 + 1).max().item(), 0.5 * (size - 1) + 1) << size;
    return engine::check_counts().passed - passed;
  };
  engine::drop_caches();
  {
    WrongAt fault(kMost);
    const engine::ExperimentScope scope({.sink = &fault});
    EXPECT_GT(checks_at(17), 0u);
    EXPECT_EQ(checks_at(17), 0u);
    EXPECT_EQ(checks_at(17 + kMultiple), 0u) << "the same remainder";
    EXPECT_GT(checks_at(1), 0u);
    EXPECT_THROW(checks_at(kMost), InternalError);
  }
  engine::drop_caches();
  EXPECT_GT(checks_at(kMost), 0u) << "without the fault";
}

}  // namespace
}  // namespace lathe
