// The table of kernels that are ready to launch.
#include "engine/kernels.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "graphs.h"
#include "ir/text.h"

namespace lathe::engine {
namespace {

// Twice n floats.
NodeRef doubling(int n) {
  return parse_graph(
      fmt::format("%0 = Param.f32 [0, {0}] ()\n"
                  "%1 = Const.idx {0} ()\n"
                  "%2 = Range.idx [0, global] (%1)\n"
                  "%3 = Param.f32 [1, {0}] ()\n"
                  "%4 = Load.f32 (%3, %2)\n"
                  "%5 = Add.f32 (%4, %4)\n"
                  "%6 = Store.void (%0, %2, %5)\n"
                  "%7 = End.void (%6, %2)\n"
                  "%8 = Sink.void (%7)\n",
                  n));
}

ReadyKernel ready(const NodeRef& ast) {
  const KernelRequest request{ast.node(), "doubling", &open_device("CPU")};
  return ready_kernels({&request, 1})[0];
}

TEST(Kernels, ThoseThatNobodyHoldsAreDroppedLeastRecentlyUsedFirst) {
  const Scope scope;
  drop_kernels();
  const std::size_t before = keep_unused_kernels(4);
  const NodeRef first = doubling(100), second = doubling(101);
  const ReadyKernel held = ready(first);
  ready(second);
  for (int i = 0; i < 40; ++i) {
    ready(doubling(i + 1));
    ready(second);
    EXPECT_LE(kernel_count(), 10u);
  }
  const std::uint64_t compiled = compile_count();
  EXPECT_EQ(ready(first).made, held.made);
  ready(second);
  EXPECT_EQ(compile_count(), compiled) << "one that is held, or was just used, was dropped";
  ready(doubling(1));
  EXPECT_EQ(compile_count(), compiled + 1) << "the oldest was kept";
  keep_unused_kernels(before);
  drop_kernels();
}

}  // namespace
}  // namespace lathe::engine
