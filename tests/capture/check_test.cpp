// LATHE_CHECK and captures: a kernel that was replaced stays replaced in replays and in saved programs.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/env.h"
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

// A kernel with a symbolic size passes at one size and is wrong at another: the check sees each remainder.
TEST(CheckedCapture, ASymbolicKernelIsCheckedAtEveryRemainderOfItsSplits) {
  const FlagScope strict(Flag::Check, "strict"), cache(Flag::Cache, "off");
  engine::drop_caches();
  const std::uint64_t passed = engine::check_counts().passed;
  const Variable n("n", 1, 64);
  const Tensor x = ramp(64, 0);
  for (int size : {17, 33, 18, 34, 1, 64}) {
    const Tensor part = x.shrink({{0, n.bind(size)}});
    EXPECT_EQ((part * 2 + 1).sum().item(), static_cast<double>(size) * (size - 1) + size);
  }
  EXPECT_GT(engine::check_counts().passed, passed + 3);
}

}  // namespace
}  // namespace lathe
