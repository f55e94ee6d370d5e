// Ctrl-C while LLVM works on one long kernel.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "cpu/harness.h"

namespace lathe::test {
namespace {

// So many multiplications and additions one after the other.
Program chain(int length) {
  ProgramBuilder b("chain");
  const Node out = b.buffer(dtypes::Float32, 1), in = b.buffer(dtypes::Float32, 1);
  const Node zero = int_const(dtypes::Int64, 0);
  const Node x = b.add(load(in, zero));
  Node y = x;
  for (int i = 0; i < length; ++i) y = b.add(b.add(y * x) + float_const(dtypes::Float32, i));
  b.add(store(out, zero, y));
  return b.take();
}

int looks = 0;

TEST(LongCompile, AKernelThatTakesLLVMLongCanBeInterrupted) {
  SKIP_WITHOUT_LLVM();
  const Scope scope;
  const Program brief = chain(10), lengthy = chain(1500);
  looks = 0;
  watch_interrupt_checks([] { ++looks; });
  llvm_compiler()->compile(brief);
  EXPECT_EQ(looks, 0) << "a thread for a call of a millisecond";
  Bytes buffers[] = {bytes_of(std::vector<float>{0}), bytes_of(std::vector<float>{0})};
  run(llvm_compiler()->compile(lengthy), buffers);
  watch_interrupt_checks(nullptr);
  EXPECT_GE(looks, 1);
  EXPECT_EQ(values_of<float>(buffers[0])[0], 1499.0f) << "the result is the call's";

  request_interrupt();
  EXPECT_THROW(llvm_compiler()->compile(lengthy), UserError);
  EXPECT_FALSE(take_interrupt()) << "a request that was met is gone";
}

}  // namespace
}  // namespace lathe::test
