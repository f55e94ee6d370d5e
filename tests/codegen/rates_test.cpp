// Choices that depend on how fast a core is fed.
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "target/target.h"

namespace lathe::test {
namespace {

// Two multiply-adds of 64 bytes a cycle, a large L2 and an L3 far behind it.
Target with_slow_l3() {
  Target target = named_target("x86-64-v4");
  target.l1 = 48 << 10, target.l2 = 2 << 20, target.l3 = 16 << 20;
  target.rates = {.arithmetic = 128, .l1 = 128, .l2 = 48, .l3 = 10, .memory = 4};
  return target;
}

bool has(const std::vector<Opt>& opts, OptOp op, int axis) {
  for (const Opt& opt : opts)
    if (opt.op == op && opt.axis == axis) return true;
  return false;
}

// A convolution of single pixels: 64 by 3136 outputs, 3.2 MB of image. Where L3 keeps up, parts of all
// channels may read the image again; where it does not, each core reads its own part of it, a strip ahead of
// the products.
TEST(Rates, WhatComesFromASlowL3IsReadByOneCoreAndAhead) {
  Scope scope;
  const Node kernel = matmul(64, 3136, 256);
  const std::vector<Opt> near = choose_options(kernel, named_target("x86-64-v4")),
                         far = choose_options(kernel, with_slow_l3());
  EXPECT_TRUE(has(near, OptOp::THREAD, 0)) << to_string(near);
  EXPECT_FALSE(has(near, OptOp::PIPELINE, 1)) << to_string(near);
  EXPECT_TRUE(has(far, OptOp::THREAD, 1)) << to_string(far);
  EXPECT_TRUE(has(far, OptOp::PIPELINE, 1)) << to_string(far);
}

// A panel of the large factor has one strip, which is fetched while the one before is used.
TEST(Rates, APanelThatIsFilledFromASlowL3HasOneStrip) {
  Scope scope;
  const std::vector<Opt> far = choose_options(matmul(64, 4096, 512), with_slow_l3());
  EXPECT_TRUE(has(far, OptOp::PIPELINE, 1)) << to_string(far);
}

// With caches so small that small kernels do not fit them.
TEST(Rates, ChoicesForASlowL3KeepTheResult) {
  Scope scope;
  Target target = with_slow_l3();
  target.l1 = 512, target.l2 = 2048, target.l3 = 16384;
  for (const NamedKernel& k : small_kernels()) {
    const std::vector<Opt> opts = choose_options(k.kernel, target);
    EXPECT_EQ(compare_with_reference(k.kernel, opts, target, 1), "") << k.name << " " << to_string(opts);
  }
}

}  // namespace
}  // namespace lathe::test
