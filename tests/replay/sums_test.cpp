// Sums of 16-bit numbers are kept in 32 bits, in gradients too: one kept in bfloat16 stops growing at 256.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ir/build.h"
#include "ir/walk.h"
#include "replay/kernels_of.h"

namespace lathe::test {
namespace {

bool keeps_sum(Node n) {
  if (!n.is(Op::Reduce) || (reduce_op(n) != Op::Add && reduce_op(n) != Op::Mul)) return false;
  return n.dtype().is_float() && n.dtype().bits() < 32;
}

TEST(Sums, NoKernelOfTheOpSuiteKeepsOneInSixteenBits) {
  for (DataType dtype : {dtypes::float16, dtypes::bfloat16}) {
    int kernels = 0;
    for (const ReplayGraph& graph : op_graphs(dtype)) {
      const Scope scope;
      for (const NodeRef& kernel : scheduled_kernels(graph.build(), "x86-64-v3")) {
        ++kernels;
        for (Node n : toposort(kernel.node()))
          EXPECT_FALSE(keeps_sum(n)) << graph.name << " in " << dtype.name() << ": a sum is kept in "
                                     << n.dtype().bits() << " bits";
      }
    }
    EXPECT_GT(kernels, 300);
  }
}

}  // namespace
}  // namespace lathe::test
