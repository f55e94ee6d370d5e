// What single passes make of small kernels, and whole programs for named targets.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernel/scan_reduces.h"
#include "codegen/kernels.h"
#include "codegen/lower/join_stores.h"
#include "codegen/lower/lower_index.h"
#include "codegen/options/option_state.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/walk.h"

namespace lathe::test {
namespace {

Node store_index(Node index, std::int64_t extent) {
  Node r = range(index_const(extent), 0, RangeKind::Global);
  Node effect =
      end(store(param(dtypes::Float32, 0, 1 << 20), index, float_const(dtypes::Float32, 1)), {&r, 1});
  return sink({&effect, 1});
}
Node index_of(Node lowered) { return lowered.arg(0).arg(0).arg(1); }

TEST(LowerIndex, UsesTruncationWhereTheNumeratorIsNotNegative) {
  Scope scope;
  Node r = range(index_const(16), 0, RangeKind::Global);
  Node lowered = index_of(lower_index(store_index(floor_div(r, index_const(4)), 16)));
  EXPECT_TRUE(lowered.is(Op::TruncDiv));
  EXPECT_EQ(lowered.dtype(), DType(dtypes::Int32));
}

TEST(LowerIndex, MovesABoundedNumeratorAboveZero) {
  Scope scope;
  Node r = range(index_const(16), 0, RangeKind::Global);
  Node lowered = index_of(lower_index(store_index(floor_div(r + index_const(-3), index_const(4)), 16)));
  EXPECT_EQ(index_text(lowered), "(r0 + -3 + 4)/4 + -1");
}

TEST(LowerIndex, TakesSixtyFourBitsOnlyWhereABoundNeedsThem) {
  Scope scope;
  Node r = range(index_const(3000000), 0, RangeKind::Global);
  Node big = r * index_const(1000);
  Node lowered = index_of(lower_index(store_index(big, 3000000)));
  EXPECT_EQ(lowered.dtype(), DType(dtypes::Int64));
  EXPECT_TRUE(lowered.arg(0).is(Op::Cast));  // the range itself fits 32 bits
  Node small = index_of(lower_index(store_index(floor_div(big, index_const(1000000)), 3000000)));
  EXPECT_EQ(small.dtype(), DType(dtypes::Int32));
}

TEST(LowerReduce, AccumulatorsOfOneTileShareOneLoop) {
  Scope scope;
  Program p =
      lower_kernel(matmul(8, 16, 8), parse_opts("UPCAST(0, 4) UPCAST(1, 8)"), named_target("x86-64-v3"), "k");
  EXPECT_EQ(count_ops(p, Op::Range), 3);   // m, n and one k
  EXPECT_EQ(count_ops(p, Op::Define), 4);  // four rows of one vector
  EXPECT_EQ(count_ops(p, Op::Fma, 8), 4);
}

TEST(LowerReduce, AReduceInsideAReduceOverTheSameRangeGetsALoopOfItsOwn) {
  Scope scope;
  Program p = lower_kernel(softmax_denominator(4, 8), {}, named_target("ref"), "k");
  EXPECT_EQ(count_ops(p, Op::Range), 2);
}

// The residue of o - k is no group that a step k has by itself.
TEST(ScanReduces, StepsThatCountByTheirDistanceFromTheOutputAreNoRunningSum) {
  Scope scope;
  for (std::int64_t every : {2, 3})
    for (std::int64_t n : {3, 4, 11}) {
      const Target target = named_target("x86-64-v3");
      Node kernel = every_few_steps(3, n, 3, every);
      EXPECT_EQ(compare_with_reference(kernel, choose_options(kernel, target), target, 1), "");
    }
}

TEST(ScanReduces, StepsOfAGroupBelowZeroCountLikeOthers) {
  Scope scope;
  Node i = range(index_const(11), 0, RangeKind::Global), t = range(index_const(11), 1, RangeKind::Reduce);
  auto group = [](Node at) {
    return cast(load(param(dtypes::Int32, 1, 11), at), dtypes::Index) + index_const(-3);
  };
  Node same = logical_and(equal(group(t), group(i)), less(group(t), index_const(10)));
  Node counts = logical_and(logical_not(less(i, t)), same);
  Node sum = reduce_ranges(Op::Add, cast(counts, dtypes::Int32), {&t, 1});
  Node effect = end(store(param(dtypes::Int32, 0, 11), i, sum), {&i, 1}), kernel = sink({&effect, 1});
  EXPECT_EQ(compare_with_reference(kernel, parse_opts("TILE(1, 1, 0)"), named_target("x86-64-v3"), 1), "");
}

// Conditions that leave no group say nothing about how many there are.
TEST(ScanReduces, ThereIsNoMemoryForGroupsThatNoStepCanHave) {
  Scope scope;
  Node i = range(index_const(11), 0, RangeKind::Global), t = range(index_const(11), 1, RangeKind::Reduce);
  auto group = [](Node at) { return cast(load(param(dtypes::Int32, 1, 11), at), dtypes::Index); };
  for (std::int64_t most : {0, -1}) {
    Node inside = logical_and(less(group(t), index_const(most)), logical_not(less(group(t), index_const(1))));
    Node counts = logical_and(logical_not(less(i, t)), logical_and(equal(group(t), group(i)), inside));
    Node sum = reduce_ranges(Op::Add, cast(counts, dtypes::Int32), {&t, 1});
    EXPECT_FALSE(running_step(sum, i, {})) << most;
    Node effect = end(store(param(dtypes::Int32, 0, 11), i, sum), {&i, 1}), kernel = sink({&effect, 1});
    EXPECT_EQ(compare_with_reference(kernel, parse_opts("TILE(1, 1, 0)"), named_target("x86-64-v3"), 1), "");
  }
}

TEST(Expand, CopiesOfALoadShareOneAddress) {
  Scope scope;
  Program p = lower_kernel(scale_add(64), parse_opts("UPCAST(0, 32)"), named_target("x86-64-v3"), "k");
  EXPECT_EQ(count_ops(p, Op::Load, 8), 8);
  EXPECT_EQ(count_ops(p, Op::Mul, 1), 1);  // r*32; the others add a constant
}

TEST(Expand, LanesAlongAReduceAreCombinedAtTheEnd) {
  Scope scope;
  Program p = lower_kernel(row_sum(4, 64), parse_opts("UNROLL(0, 32)"), named_target("x86-64-v3"), "k");
  EXPECT_EQ(count_ops(p, Op::Define), 4);  // four vectors of eight lanes
  EXPECT_EQ(count_ops(p, Op::HReduce), 1);
}

// Along x pixels and outputs are contiguous, but 14 of them are vectors of two; 8 channels are one of eight.
TEST(Expand, LanesAreWhereTheyDivideTheWorkMost) {
  Scope scope;
  Program p = lower_kernel(convolution(2, 64, 16, 14, 3),
                           parse_opts("UPCAST(3, 14) UPCAST(1, 8) STAGE(1, 1, 0) STAGE(0, 0, 1)"),
                           named_target("x86-64-v3"), "k");
  EXPECT_EQ(count_ops(p, Op::Fma, 8), 14);
  EXPECT_EQ(count_ops(p, Op::Fma, 2), 0);
}

// Every second, third or fourth element of a row: all of them by vectors, once, and sorted.
TEST(Expand, ElementsAFewApartAreLoadedWithThoseBetweenThem) {
  Scope scope;
  for (std::int64_t every : {2, 3, 4}) {
    Node kernel = neighbour_sums(64, every, every);
    for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
      SCOPED_TRACE(std::to_string(every) + " on " + name);
      const Target target = named_target(name);
      const int lanes = target.vector_bytes / 4;
      std::vector<Opt> opts = choose_options(kernel, target);
      Program p = lower_kernel(kernel, opts, target, "k");
      int loads = 0, adds = 0;
      for (const NodeRef& n : p.code) {
        loads += n.node().is(Op::Load) && n.node().dtype().lanes == lanes * every;
        EXPECT_FALSE(n.node().is(Op::Load) && n.node().dtype().lanes == 1) << to_string(opts);
        adds += n.node().is(Op::Add) &&
                n.node().dtype() == dtypes::Float32.vec(static_cast<std::uint16_t>(lanes));
      }
      EXPECT_GT(loads, 0) << to_string(opts);
      EXPECT_EQ(adds, loads * (every - 1)) << to_string(opts);
      EXPECT_EQ(compare_with_reference(kernel, opts, target, 1), "");
    }
  }
  // Not where a group of them could end behind the memory, nor far apart.
  for (Node kernel : {neighbour_sums(64, 3, 4), neighbour_sums(64, 5, 2)})
    for (const char* opts : {"UPCAST(0, 16)", "UPCAST(0, 16) UNROLL(0, 0)"}) {
      Program p = lower_kernel(kernel, parse_opts(opts), named_target("x86-64-v3"), "k");
      EXPECT_EQ(count_ops(p, Op::Load, 24) + count_ops(p, Op::Load, 40), 0);
      EXPECT_EQ(compare_with_reference(kernel, parse_opts(opts), named_target("x86-64-v3"), 1), "");
    }
}

// Rows in registers beside lanes along them: vectors that hold elements of all rows are stored before any
// row is read.
TEST(Expand, RowsOfATransposedMatrixAreReadOnceTheyAreWhole) {
  Scope scope;
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (std::int64_t rows = 1; rows < 20; ++rows)
      for (std::int64_t columns = 1; columns < 20; ++columns) {
        const Target target = named_target(name);
        Node kernel = softmax_rows(rows, columns, true);
        ASSERT_EQ(compare_with_reference(kernel, choose_options(kernel, target), target, 1), "")
            << rows << " x " << columns;
      }
}

TEST(Expand, UnrolledStepsAreTakenInOrder) {
  Scope scope;
  Program p = lower_kernel(row_sum(4, 64), parse_opts("UNROLL(0, 4)"), named_target("sm_90a"), "k");
  EXPECT_EQ(count_ops(p, Op::Define), 1);
  int sums = 0;
  for (const NodeRef& n : p.code) sums += n.node().is(Op::Add) && n.node().dtype() == dtypes::Float32;
  EXPECT_EQ(sums, 4);  // ((acc + x0) + x1) + ..., no sum of the four first
}

// A row of 8 pixels made of 6 by a window of 3: 18 of 24 steps are not in the border, for two vectors each.
TEST(Expand, UnrolledStepsInTheBorderOfAnImageAreSkipped) {
  Scope scope;
  Target target = named_target("x86-64-v4");
  Node kernel = input_gradient(64, 64, 64, 8, 3);
  Program p = lower_kernel(kernel, choose_options(kernel, target), target, "k");
  EXPECT_EQ(count_ops(p, Op::Fma, 16), 2 * 18);
}

TEST(GroupMemory, JoinsAlignedNeighboursOnly) {
  Scope scope;
  Target gpu = named_target("sm_90a");
  Program aligned = lower_kernel(scale_add(64), parse_opts("UPCAST(0, 4)"), gpu, "k");
  EXPECT_EQ(count_ops(aligned, Op::Load, 4), 2);
  EXPECT_EQ(count_ops(aligned, Op::Store), 1);
  Program odd = lower_kernel(scale_add(63), parse_opts("UPCAST(0, 3)"), gpu, "k");
  EXPECT_EQ(count_ops(odd, Op::Load, 1), 6);
}

TEST(MapParallel, MergesRangesBeyondTheThirdAndThoseAboveALimit) {
  Scope scope;
  Node ranges[] = {range(index_const(2), 0, RangeKind::Global), range(index_const(3), 1, RangeKind::Global),
                   range(index_const(5), 2, RangeKind::Global), range(index_const(7), 3, RangeKind::Global)};
  Node index =
      ((ranges[0] * index_const(3) + ranges[1]) * index_const(5) + ranges[2]) * index_const(7) + ranges[3];
  Node value = cast(ranges[0] * index_const(1000) + ranges[2], dtypes::Float32);
  Node effect = end(store(param(dtypes::Float32, 0, 210), index, value), ranges);
  Node kernel = sink({&effect, 1});
  Program p = lower_kernel(kernel, {}, named_target("sm_90a"), "k");
  EXPECT_TRUE(p.groups[0]->is_const_int(7));
  EXPECT_TRUE(p.groups[1]->is_const_int(5));
  EXPECT_TRUE(p.groups[2]->is_const_int(6));
  EXPECT_EQ(compare_with_reference(kernel, {}, named_target("sm_90a"), 1), "");

  Program tall = lower_kernel(transpose(100000, 70000), {}, named_target("sm_90a"), "k");
  EXPECT_TRUE(tall.groups[0]->is_const_int(7000000000));  // 70000 is beyond the limit of the second dimension
}

TEST(MapParallel, LaunchSizesMayHoldVariables) {
  Scope scope;
  Node n = variable("n", 1, 100);
  Node i = range(n, 0, RangeKind::Global);
  Node effect = end(store(param(dtypes::Float32, 0, 100), i, float_const(dtypes::Float32, 1)), {&i, 1});
  Program p = lower_kernel(sink({&effect, 1}), parse_opts("LOCAL(0, 8)"), named_target("sm_90a"), "k");
  ASSERT_EQ(p.variables.size(), 1u);
  EXPECT_EQ(p.variables[0]->text(), "n");
  EXPECT_EQ(index_text(p.groups[0]), "(n + 7)/8");
}

TEST(Linearize, CountsWorkAsScheduledWhateverTheOptions) {
  Scope scope;
  for (const char* opts : {"", "UPCAST(0, 3)", "PADTO(2, 64)"}) {
    Program p = lower_kernel(matmul(8, 16, 8), parse_opts(opts), named_target("ref"), "k");
    EXPECT_EQ(p.flops, 2.0 * 8 * 16 * 8);
    EXPECT_EQ(p.bytes, 4.0 * (8 * 16 + 8 * 8 + 8 * 16));
  }
}

TEST(Linearize, HoistsWhatDoesNotChangeInALoop) {
  Scope scope;
  Program p = lower_kernel(matmul(8, 16, 8), {}, named_target("ref"), "k");
  // m*8 stands before the loop over n or k opens.
  int loops = 0, at_first_mul = -1;
  for (const NodeRef& n : p.code) {
    if (n.node().is(Op::Range)) ++loops;
    if (n.node().is(Op::Mul) && at_first_mul < 0) at_first_mul = loops;
  }
  EXPECT_LE(at_first_mul, 1);
}

TEST(PeelSteps, OnlyTheLastStepOfAnUnevenSumIsGated) {
  Scope scope;
  auto loads = [](const char* opts, bool gated) {
    int n = 0;
    for (Node node : toposort(apply_options(row_sum(4, 333), parse_opts(opts), named_target("x86-64-v3"))))
      n += node.is(Op::Load) && (node.arg_count() > 2 && node.arg(2).lo() != 1) == gated;
    return n;
  };
  EXPECT_EQ(loads("UNROLL(0, 8)", false), 1) << "in the loop";
  EXPECT_EQ(loads("UNROLL(0, 8)", true), 1) << "behind it";
  EXPECT_EQ(loads("UNROLL(0, 9)", true), 0) << "333 is 37 times 9";
  EXPECT_EQ(loads("UNROLL(0, 200)", false), 0) << "two steps are no loop worth two bodies";
}

TEST(Stage, AllThreadsOfAGroupFillAPanelInWidePieces) {
  Scope scope;
  const Target target = named_target("sm_90a");
  const Program program =
      lower_kernel(matmul(64, 64, 64),
                   parse_opts("LOCAL(0, 8) LOCAL(1, 8) TILE(4, 16) STAGE(4, 0) STAGE(4, 1)"), target, "k");
  int wide_loads = 0, narrow_loads = 0, wide_stores = 0, gated = 0, barriers = 0;
  for (const NodeRef& n : program.code) {
    barriers += n->is(Op::Barrier);
    const bool load = n->is(Op::Load) && base_memory(n->arg(0)).is(Op::Param);
    const bool store = n->is(Op::Store) && base_memory(n->arg(0)).is(Op::Define) &&
                       define_space(base_memory(n->arg(0))) == Space::Shared;
    if (load) ++(n->dtype().lanes == 4 ? wide_loads : narrow_loads);
    if (store) wide_stores += n->arg(2).dtype().lanes == 4, gated += n->arg_count() > 3;
  }
  EXPECT_EQ(wide_loads, 2)
      << "one each: 8 rows or columns by 16 steps are 32 pieces, and there are 64 threads";
  EXPECT_EQ(narrow_loads, 0);
  EXPECT_EQ(barriers, 2) << "one before both panels are filled, one after";
  EXPECT_GT(gated, 0);
  EXPECT_EQ(wide_stores, 1);
}

// Two stores under one gate, and a load between them: of what they write, or of another buffer.
TEST(Passes, StoresUnderOneGateShareABranchUnlessTheirBufferIsRead) {
  Scope scope;
  auto branches = [](bool reads_what_is_written) {
    Program p;
    p.name = "gated";
    Node out = param(dtypes::Float32, 0, 64), x = param(dtypes::Float32, 1, 64);
    p.params = {{0, dtypes::Float32, 64, reads_what_is_written, true}, {1, dtypes::Float32, 64, true, false}};
    auto i32 = [](std::int64_t v) { return int_const(dtypes::Int32, v); };
    AttrData d{"", {0, static_cast<std::int64_t>(RangeKind::Loop)}};
    Node r = intern(Op::Range, dtypes::Int32, {i32(32)}, Attr::of(d)), gate = less(r, i32(7));
    Node first = load(x, r), put = store(out, r, first, gate), again = r + i32(32);
    Node second = load(reads_what_is_written ? out : x, again);
    p.code = {r,
              gate,
              first,
              put,
              again,
              second,
              store(out, again, second, gate),
              intern(Op::End, dtypes::Void, {r})};
    const Program joined = join_stores(p, named_target("x86-64-v3"));
    EXPECT_TRUE(verify_program(joined).empty()) << print_program(joined);
    return std::count_if(joined.code.begin(), joined.code.end(),
                         [](const NodeRef& n) { return n->is(Op::If); });
  };
  EXPECT_EQ(branches(false), 1);
  EXPECT_EQ(branches(true), 2);
}

}  // namespace
}  // namespace lathe::test
