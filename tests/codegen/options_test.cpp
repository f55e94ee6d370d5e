#include "lathe/options.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "codegen/options/option_state.h"
#include "codegen/random_options.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "support/fuzz.h"

namespace lathe::test {
namespace {

// The list of ranges: "global 8, reduce 3".
std::string list_of(Node kernel, const char* opts, const char* target = "ref") {
  Target facts = named_target(target);  // the state refers to it
  OptionState state(kernel, facts);
  for (const Opt& opt : parse_opts(opts)) state.apply(opt);
  std::string out;
  for (const Axis& axis : state.axes()) {
    if (!out.empty()) out += ", ";
    out += std::string(name(axis.kind)) + " " + index_text(axis.extent);
  }
  return out;
}

TEST(Options, PrintAndReadBackUnchanged) {
  const char* text =
      "TC(0, 0, 0, 1) UPCAST(0, 4) UNROLL(0, 0) TILE(2, 32, 1) STAGE(1, 0, 0) SWAP(0, 1) NOLOCALS(0)";
  EXPECT_EQ(to_string(parse_opts(text)), text);
  EXPECT_TRUE(parse_opts("").empty());
}

// What LATHE_WITHOUT leaves out is left out where options simplify at once, too.
TEST(Options, JoinedRangesAndWordsAreSimplifiedByTheRulesOfTheCompile) {
  const Scope scope;
  const Target target = named_target("x86-64-v4");
  RuleChanges without;
  without.disabled = {"sum-normal"};
  const auto divides = [](Node kernel) {
    const std::vector<Node> all = toposort(kernel);
    return std::ranges::any_of(all, [](Node n) { return n.is(Op::FloorDiv) || n.is(Op::FloorMod); });
  };
  const Node i = range(index_const(4), 0, RangeKind::Global), j = range(index_const(6), 1, RangeKind::Global);
  const Node at = i * index_const(6) + j, ranges[] = {i, j};
  const Node effect =
      end(store(param(dtypes::Float32, 0, 24), at, load(param(dtypes::Float32, 1, 24), at)), ranges);
  const Node kernel = sink({&effect, 1});
  const RuleChanges* const both[] = {&kRulesAsWritten, &without};
  for (const RuleChanges* rules : both) {
    OptionState state(kernel, target, *rules);
    state.apply(parse_opts("JOIN(0, 1)")[0]);
    EXPECT_EQ(divides(state.kernel()), rules == &without);
  }
}

TEST(Options, AnyNumberOfThreadsStoresTheSameBits) {
  const Target target = named_target("x86-64-v3");
  int tried = 0;
  for (const NamedKernel& named : small_kernels()) {
    const Scope scope;
    const Node kernel = named.kernel;
    const std::vector<Opt> opts = choose_options(kernel, target);
    OptionState state(kernel, target);
    for (const Opt& opt : opts) state.apply(opt);
    for (std::size_t axis = 0; axis < state.axes().size(); ++axis)
      for (const std::int64_t parts : {2, 3}) {
        std::vector<Opt> threaded = opts;
        threaded.push_back({OptOp::THREAD, static_cast<int>(axis), {parts}});
        try {
          apply_options(kernel, threaded, target);
        } catch (const KernelOptError&) {
          continue;
        }
        ++tried;
        EXPECT_EQ(compare_bits(kernel, opts, threaded, target), "") << named.name;
      }
  }
  EXPECT_GT(tried, 50);
}

// x*y + z*w where both products begin at the same elements: of a matrix and its transpose, of every element
// and every second, third... one.
TEST(Options, AnyNumberOfThreadsStoresTheSameBitsOfProductsThatBeginTogether) {
  const Target target = named_target("x86-64-v3");
  const Scope scope;
  for (const std::int64_t n : {6, 12, 16, 18, 24, 36, 48})
    for (const std::int64_t step : {0, 1, 2, 3, 5}) {
      Node i = range(index_const(n), 0, RangeKind::Global), j = range(index_const(n), 1, RangeKind::Global);
      const Node size = index_const(n), here = i * size + j;
      const Node other = step == 0 ? j * size + i : here * index_const(step) + j;
      const std::int64_t last = n * n * std::max<std::int64_t>(step, 1) + n;
      auto at = [&](int slot, Node index) { return load(param(dtypes::Float32, slot, last), index); };
      Node sum = at(1, here) * at(2, here) + at(1, other) * at(2, other);
      const std::vector<Node> ranges = {i, j};
      Node effect = end(store(param(dtypes::Float32, 0, n * n), here, sum), ranges),
           kernel = sink({&effect, 1});
      for (const char* opts : {"", "UPCAST(1, 2)", "UPCAST(0, 2)", "SWAP(0, 1)"})
        for (const char* threads : {" THREAD(0, 2)", " THREAD(0, 3)", " THREAD(1, 2)"})
          EXPECT_EQ(compare_bits(kernel, parse_opts(opts), parse_opts(opts + std::string(threads)), target),
                    "")
              << n << " " << step << " " << opts << threads;
    }
}

TEST(Options, MisspeltOptionsAreNamed) {
  try {
    parse_opts("UPCAST(0, 4) UNROL(0, 4)");
    FAIL();
  } catch (const KernelOptError& error) {
    EXPECT_STREQ(error.what(),
                 "lathe: options: 'UNROL' is not an option, at column 14\n  help: did you mean UNROLL?");
  }
}

TEST(Options, EachPutsItsRangeWhereItBelongs) {
  Scope scope;
  Node k = matmul(96, 64, 48);
  EXPECT_EQ(list_of(k, ""), "global 96, global 64, reduce 48");
  EXPECT_EQ(list_of(k, "UPCAST(1, 16)"), "global 96, global 4, reduce 48, upcast 16");
  EXPECT_EQ(list_of(k, "UPCAST(1, 0)"), "global 96, reduce 48, upcast 64");
  EXPECT_EQ(list_of(k, "UNROLL(0, 4)"), "global 96, global 64, reduce 12, unroll 4");
  EXPECT_EQ(list_of(k, "LOCAL(0, 8)"), "global 12, global 64, local 8, reduce 48");
  EXPECT_EQ(list_of(k, "THREAD(1, 4)"), "thread 4, global 96, global 16, reduce 48");
  EXPECT_EQ(list_of(k, "GROUP(0, 16)"), "global 96, global 64, group 16, reduce 3");
  EXPECT_EQ(list_of(k, "GROUPTOP(0, 16)"), "global 96, global 64, group 16, reduce 3");
  EXPECT_EQ(list_of(k, "PADTO(2, 32)"), "global 96, global 64, reduce 64");
  EXPECT_EQ(list_of(k, "SWAP(0, 2)"), "reduce 48, global 64, global 96");
  EXPECT_EQ(list_of(k, "TILE(2, 16)", "x86-64-v3"), "global 96, global 64, reduce 3, reduce 16");
  EXPECT_EQ(list_of(k, "TILE(2, 16, 0)", "x86-64-v3"), "reduce 3, global 96, global 64, reduce 16");
  EXPECT_EQ(list_of(k, "TILE(1, 1, 0)", "x86-64-v3"), "global 64, global 96, reduce 48");
}

TEST(Options, APanelThatIsReadOutsideTheReduceOfItsThreadsIsRefused) {
  Scope scope;
  EXPECT_EQ(refusal(centred_rows(6, 16), "GROUPTOP(1, 16) STAGE(2, 0, 0)", "sm_90a"),
            "lathe: STAGE: the value is also read where the threads of the group are no ranges");
}

TEST(Options, TheListOfTheWorkedMatrixProduct) {
  Scope scope;
  Node k = matmul(448, 2048, 768);
  const char* opts =
      "UPCAST(0, 14) UPCAST(1, 32) THREAD(1, 2) TILE(2, 8, 1) TILE(4, 384, 2) STAGE(2, 0, 0) TILE(3, 16, 3) "
      "STAGE(3, 1, 0) SWAP(4, 5)";
  EXPECT_EQ(list_of(k, opts, "x86-64-v4"),
            "thread 2, global 4, reduce 2, global 2, global 8, global 16, reduce 384, upcast 14, upcast 32");
}

TEST(Options, RefusalsSayWhy) {
  Scope scope;
  Node k = matmul(8, 8, 8);
  EXPECT_EQ(refusal(k, "UPCAST(7, 2)"), "lathe: UPCAST(7, 2): there is no axis 7: the list has 3");
  EXPECT_EQ(refusal(k, "UNROLL(1, 2)"), "lathe: UNROLL(1, 2): there is no reduce axis 1: the list has 1");
  EXPECT_EQ(refusal(k, "UPCAST(2, 2)"),
            "lathe: UPCAST(2, 2): axis 2 is of kind reduce, not an output range that runs one after the "
            "other (UNROLL is "
            "for reduces)");
  EXPECT_EQ(refusal(k, "THREAD(2, 2)"), "lathe: THREAD(2, 2): axis 2 is of kind reduce, not a global range");
  EXPECT_EQ(refusal(k, "UPCAST(0, -1)"), "lathe: UPCAST(0, -1): the size must be positive, not -1");
  EXPECT_EQ(refusal(k, "TILE(0)"), "lathe: TILE(0): a size is needed");
  EXPECT_EQ(refusal(k, "LOCAL(0, 2)", "x86-64-v3"),
            "lathe: LOCAL(0, 2): target x86-64-v3 has no groups of threads");
  EXPECT_EQ(refusal(k, "THREAD(0, 2)", "sm_90a"), "lathe: THREAD(0, 2): target sm_90a has no thread pool");
  EXPECT_EQ(refusal(k, "UPCAST(0, 2) JOIN(0, 1)"),
            "lathe: JOIN(0, 1): ranges are joined before all other options");
  EXPECT_EQ(refusal(k, "JOIN(0)"), "lathe: JOIN(0): the other position is needed");
  EXPECT_EQ(refusal(k, "JOIN(0, 0)"), "lathe: JOIN(0, 0): a range is joined with another one");
  EXPECT_EQ(refusal(k, "JOIN(0, 2)"), "lathe: JOIN(0, 2): an output range and a reduce are not joined");
  EXPECT_EQ(refusal(k, "NOLOCALS(0) LOCAL(0, 2)"), "lathe: LOCAL(0, 2): NOLOCALS came before");
  EXPECT_EQ(refusal(k, "LOCAL(0, 2) NOLOCALS(0)"), "lathe: NOLOCALS(0): the kernel already has local ranges");
  EXPECT_EQ(refusal(matmul(4096, 4096, 4), "LOCAL(0, 64) LOCAL(1, 64)"),
            "lathe: LOCAL(1, 64): the group would have 4096 threads, more than the 1024 of target ref");
  EXPECT_EQ(refusal(scale_add(100000), "UPCAST(0, 0)"),
            "lathe: UPCAST(0, 0): the body would be copied more than 4096 times");
  EXPECT_EQ(refusal(k, "TC(1, 0, 0, 1)", "x86-64-v2"),
            "lathe: TC(1, 0, 0, 1): target x86-64-v2 has no matrix units");
  EXPECT_EQ(refusal(k, "TC(1, 0, 0, 1)"),
            "lathe: TC(1, 0, 0, 1): the kernel sums no products of small numbers in float32 or int32");
  Node small = small_matmul(4, 8, 6, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32);
  EXPECT_EQ(refusal(small, "TC(1, 0, 0)"),
            "lathe: TC(1, 0, 0): a row, whether words may be padded, and how the unit is used are needed");
  EXPECT_EQ(refusal(small, "TC(1, 0, 0, 4)"),
            "lathe: TC(1, 0, 0, 4): use 4 does not exist: 1 is the instruction, 2 its loops, 3 its words "
            "without it");
  EXPECT_EQ(refusal(small, "TC(3, 0, 0, 1)"), "lathe: TC(3, 0, 0, 1): there is no axis 3: the list has 3");
  EXPECT_EQ(refusal(small, "TC(2, 0, 0, 1)"), "lathe: TC(2, 0, 0, 1): axis 2 moves not exactly one factor");
  EXPECT_EQ(refusal(small, "TC(1, 7, 0, 1)"), "lathe: TC(1, 7, 0, 1): there is no row 7: 3 fit");
  EXPECT_EQ(refusal(small, "UPCAST(0, 2) TC(1, 0, 0, 1)"),
            "lathe: TC(1, 0, 0, 1): a matrix unit is chosen before all other options");
  EXPECT_EQ(refusal(small, "TC(1, 0, 0, 1)", "x86-64-v3+avxvnni"),
            "lathe: TC(1, 0, 0, 1): no matrix unit of target x86-64-v3+avxvnni multiplies bf16 by bf16");
  EXPECT_EQ(
      refusal(small_matmul(4, 8, 7, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32), "TC(1, 0, 0, 1)"),
      "lathe: TC(1, 0, 0, 1): 7 steps are no whole words of 2");
  EXPECT_EQ(refusal(k, "STAGE(2, 9, 0)"), "lathe: STAGE(2, 9, 0): there is no value 9: the kernel has 2");
  EXPECT_EQ(refusal(k, "STAGE(-2, 0, 0)"), "lathe: STAGE(-2, 0, 0): there is no axis -2: the list has 3");
  EXPECT_EQ(refusal(k, "STAGE(2, 0, 3)"),
            "lathe: STAGE(2, 0, 3): layout 3 does not exist: 0 is the consumer's order, 1 the source's, "
            "2 swizzled rows");
  EXPECT_EQ(refusal(k, "PIPELINE(2, 0)"), "lathe: PIPELINE(2, 0): the depth must be at least 1");
  EXPECT_EQ(refusal(k, "UPCAST(0, 2) SWAP(0, 3)"), "lathe: SWAP(0, 3): axis 3 is of kind upcast, not a loop");
  EXPECT_EQ(refusal(arg_max(4, 8), "UNROLL(0, 2)"),
            "lathe: UNROLL(0, 2): a reduce that carries a tuple takes its steps one after the other");
  EXPECT_EQ(refusal(arg_max(4, 8), "TILE(1, 2) SWAP(1, 2)"),
            "lathe: SWAP(1, 2): a reduce that carries a tuple takes its steps one after the other");
  EXPECT_EQ(refusal(softmax_rows(4, 8), "STAGE(0, 2, 0)"),
            "lathe: STAGE(0, 2, 0): the value comes from memory of the kernel's own");
  EXPECT_EQ(refusal(k, "LOCAL(0, 2) STAGE(1, 0, 0) SWAP(0, 3)"),
            "lathe: SWAP(0, 3): a group would fill its panels in a reduce that stands outside the outputs");
  EXPECT_EQ(refusal(softmax_rows(4, 8), "GROUP(0, 4)"),
            "lathe: GROUP(0, 4): each row of this kernel is worked through by one thread");
  EXPECT_EQ(refusal(softmax_rows(4, 8), "LOCAL(1, 4)"),
            "lathe: LOCAL(1, 4): each row of this kernel is worked through by one thread");
  EXPECT_EQ(refusal(ragged_sum(4, 8), "SWAP(0, 1)"),
            "lathe: SWAP(0, 1): the extent of axis 0 depends on axis 1, which would stand inside it");
  EXPECT_EQ(refusal(ragged_sum(4, 8), "TILE(1, 3) TILE(2, 1, 0)"),
            "lathe: TILE(2, 1, 0): the extent of axis 0 depends on axis 1, which would stand inside it");
  EXPECT_EQ(refusal(ragged_sum(4, 8), "STAGE(1, 0, 0)"),
            "lathe: STAGE(1, 0, 0): a value that decides how far a range goes stays where it is");
}

TEST(Options, PanelsThatDoNotFitAreRefused) {
  Scope scope;
  EXPECT_EQ(refusal(row_sum(4, 100000), "LOCAL(0, 4) TILE(1, 50000) STAGE(1, 0, 0)", "sm_90a"),
            "lathe: STAGE: panels of 800000 bytes exceed the 232448 bytes of target sm_90a");
}

TEST(Options, CopiesOfARowHavePanelsOfTheirOwn) {
  Scope scope;
  for (const char* target : {"ref", "x86-64-v3", "x86-64-v4"})
    for (const char* opts :
         {"UPCAST(0, 4)", "UPCAST(0, 3) UPCAST(2, 2) UPCAST(1, 4)", "UPCAST(0, 2) UNROLL(1, 4)"})
      EXPECT_EQ(compare_with_reference(softmax_rows(6, 9), parse_opts(opts), named_target(target), 5), "");
}

TEST(Options, LoopsOfARowAreDividedAmongTheSameThreads) {
  Scope scope;
  for (const char* name : {"ref", "sm_90a"}) {
    const Target target = named_target(name);
    struct Case {
      const char* options;
      std::int64_t threads;
    };
    for (const Case& c : {Case{"LOCAL(1, 4) GROUP(0, 4) GROUP(1, 4)", 4}, Case{"GROUP(0, 8) GROUP(1, 8)", 8},
                          Case{"UPCAST(1, 2) LOCAL(1, 4) GROUPTOP(0, 4) UNROLL(1, 3) GROUP(1, 4)", 4},
                          Case{"LOCAL(0, 3) LOCAL(2, 4) GROUP(0, 4) GROUP(1, 2)", 3 * 4 * 2}}) {
      Node kernel = centred_rows(6, 26);
      const std::vector<Opt> opts = parse_opts(c.options);
      EXPECT_EQ(compare_with_reference(kernel, opts, target, 5), "");
      const Program program = lower_kernel(kernel, opts, target, "rows");
      std::int64_t threads = 1;
      for (const NodeRef& size : program.locals)
        if (size) threads *= size.node().const_int();
      EXPECT_EQ(threads, c.threads) << c.options;
    }
  }
}

TEST(Options, NestsOfARowAreCopiedApart) {
  Scope scope;
  // 64 * 64 * 64 copies would be too many of one body; of three bodies one after the other they are not.
  EXPECT_EQ(refusal(softmax_rows(4, 256), "UPCAST(1, 64) UPCAST(2, 64) UNROLL(0, 64) UNROLL(1, 64)"),
            "accepted");
}

TEST(Options, StageNumbersLoadsAndThenFactors) {
  Scope scope;
  Node k = bias_relu_matmul(4, 8, 16);
  std::vector<Node> values = stageable_values(k);
  ASSERT_EQ(values.size(), 3u);  // the factors of the sum are loads, and known
  for (Node v : values) EXPECT_TRUE(v.is(Op::Load));
}

TEST(Options, AnUnevenSplitGatesTheStoreAndLeavesTheElementNeutral) {
  Scope scope;
  std::string text =
      print_graph(apply_options(row_max(4, 7), parse_opts("UNROLL(0, 4)"), named_target("ref")));
  EXPECT_NE(text.find("Where.f32"), std::string::npos) << text;  // a maximum needs -inf there
  text = print_graph(apply_options(row_sum(4, 7), parse_opts("UNROLL(0, 4)"), named_target("ref")));
  EXPECT_EQ(text.find("Where.f32"), std::string::npos) << text;  // a gated load is the neutral 0
}

TEST(Options, TheFirstOuterStepSetsTheSumAndTheLastFinishesIt) {
  Scope scope;
  std::string text = print_program(
      lower_kernel(bias_relu_matmul(4, 8, 12), parse_opts("TILE(2, 4, 0)"), named_target("x86-64-v3"), "k"));
  std::size_t stores = 0;
  for (std::size_t at = text.find("Store.void (%"); at != std::string::npos;
       at = text.find("Store.void (%", at + 1))
    ++stores;
  EXPECT_EQ(stores, 3u) << text;  // the accumulator twice and the output once: no nest before or after
  for (const char* opts : {"TILE(2, 4, 0)", "TILE(2, 5, 0)", "SWAP(0, 2)", "TILE(2, 4, 0) UPCAST(2, 8)"})
    for (const char* target : {"ref", "x86-64-v3"})
      EXPECT_EQ(compare_with_reference(bias_relu_matmul(4, 8, 12), parse_opts(opts), named_target(target), 1),
                "");
}

// Rows of a window that lie outside the image are zeros: the loops inside their step run no times.
TEST(Options, StepsOfASumThatOnlyAddZerosAreNotTaken) {
  Scope scope;
  Node kernel = convolution(2, 3, 4, 6, 3);
  for (const char* opts :
       {"SWAP(4, 5)", "SWAP(4, 5) UPCAST(3, 2) UPCAST(1, 4)", "SWAP(4, 5) STAGE(0, 0, 1)",
        "SWAP(4, 6) PADTO(4, 2)", "UPCAST(1, 4) THREAD(0, 2) SWAP(3, 4) STAGE(0, 1, 0) STAGE(1, 0, 1)"}) {
    int skipped = 0;
    for (Node n : toposort(apply_options(kernel, parse_opts(opts), named_target("x86-64-v3"))))
      skipped += n.is(Op::Range) && range_kind(n) == RangeKind::Reduce && n.arg(0).lo() == 0;
    EXPECT_EQ(skipped, 1) << opts;
    // Two loops, one inside the other, that both may run no times.
    EXPECT_EQ(compare_with_reference(convolution(1, 9, 4, 6, 3), parse_opts("SWAP(4, 6) UPCAST(1, 4)"),
                                     named_target("x86-64-v3"), 1),
              "");
    for (const char* target : {"ref", "x86-64-v3", "x86-64-v4"})
      EXPECT_EQ(compare_with_reference(kernel, parse_opts(opts), named_target(target), 1), "");
  }
}

TEST(Options, StepsInABorderThatAreLeftOutOfASumChangeNothing) {
  Scope scope;
  for (const char* target : {"ref", "x86-64-v3", "x86-64-v4"})
    for (const char* opts :
         {"UNROLL(1, 0) UPCAST(3, 0) UPCAST(1, 8)", "UNROLL(1, 0) UPCAST(3, 0) UNROLL(0, 0) UPCAST(2, 0)",
          "UNROLL(1, 0) UPCAST(3, 0) UPCAST(1, 16) STAGE(0, 0, 0) STAGE(0, 1, 1)"})
      EXPECT_EQ(
          compare_with_reference(input_gradient(2, 16, 8, 6, 3), parse_opts(opts), named_target(target), 1),
          "")
          << target << " " << opts;
}

// So many threads and steps that REF computes a sample of the positions, which is what then is compared.
TEST(Options, TwoGroupedReducesOverAPaddedAxis) {
  Scope scope;
  EXPECT_EQ(
      compare_with_reference(convolution(2, 3, 4, 6, 3),
                             parse_opts("GROUP(1, 16) PADTO(0, 8) GROUPTOP(1, 16)"), named_target("ref"), 1),
      "");
}

// A reduce outside the output that it is compared with takes only the steps that count.
TEST(Options, WalksInOrderTakeEachStepOnce) {
  Scope scope;
  struct Case {
    Node kernel;
    const char* opts;
  };
  const Case cases[] = {
      {scatter_sum(3, 7, 9, 5), "TILE(3, 1, 1)"},
      {scatter_sum(3, 7, 9, 5), "THREAD(0, 2) TILE(4, 1, 2)"},
      {scatter_sum(2, 16, 12, 8), "UPCAST(2, 8) TILE(2, 1, 1)"},
      {scatter_sum(1, 1000, 12, 1), "THREAD(1, 3) TILE(4, 1, 2)"},
      {scatter_last(4, 9, 7), "THREAD(0, 4) TILE(2, 1, 1)"},
      {running_sum(3, 7, 5), "TILE(3, 1, 1)"},
      {running_sum(2, 8, 16), "UPCAST(2, 16) TILE(2, 1, 1)"},
      {running_max(6, 13), "UPCAST(0, 2) TILE(2, 1, 1)"},
      {running_count(3, 11, 10), "TILE(2, 1, 1)"},
      {running_count(4, 11, 10), "UPCAST(0, 2) THREAD(0, 2) TILE(2, 1, 1)"},
  };
  for (const Case& k : cases)
    for (const char* name : {"ref", "x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
      const Target target = named_target(name);
      SCOPED_TRACE(std::string(k.opts) + " on " + name);
      EXPECT_EQ(compare_with_reference(k.kernel, parse_opts(k.opts), target, 5), "");
      // No reduce is left: each step is a store.
      for (Node n : toposort(apply_options(k.kernel, parse_opts(k.opts), target)))
        EXPECT_FALSE(n.is(Op::Reduce));
    }
}

// In the first step of a reduce that stands outside there is nothing to read yet, whatever it combines.
TEST(Options, AMaximumOutsideItsOutputsReadsNothingInItsFirstStep) {
  Scope scope;
  Node i = range(index_const(2), 0, RangeKind::Global), j = range(index_const(9), 1, RangeKind::Global);
  Node k = range(index_const(2), 2, RangeKind::Reduce), both[] = {i, j};
  Node x = param(dtypes::Float32, 1, 18);
  Node largest = reduce_ranges(Op::Max, load(x, k * index_const(9) + j), {&k, 1});
  Node at = i * index_const(9) + j;
  Node effect = end(store(param(dtypes::Float32, 0, 18), at, load(x, at) - largest), both);
  Node kernel = sink({&effect, 1});
  for (const char* name : {"x86-64-v2", "x86-64-v4", "sm_90a"})
    EXPECT_EQ(compare_with_reference(kernel, parse_opts("SWAP(0, 2)"), named_target(name), 1), "");
}

// Groups that another store is spread over would all add to the output of the one that is not.
TEST(Options, OneStoreOfSeveralDoesNotAddUpInTheOutputOfAllGroups) {
  Scope scope;
  Node i = range(index_const(6), 0, RangeKind::Global), k = range(index_const(4), 1, RangeKind::Reduce),
       l = range(index_const(4), 2, RangeKind::Reduce);
  auto x = [&](Node at) { return load(param(dtypes::Float32, 2, 24), i * index_const(4) + at); };
  Node largest = reduce_ranges(Op::Max, x(l), {&l, 1}), sum = reduce_ranges(Op::Add, x(k), {&k, 1});
  Node effects[] = {end(store(param(dtypes::Float32, 0, 6), i, sum - largest), {&i, 1}),
                    end(store(param(dtypes::Float32, 1, 6), i, largest), {&i, 1})};
  for (const char* name : {"x86-64-v4", "sm_90a"})
    for (const char* opts : {"SWAP(0, 1)", "SWAP(0, 2)", "TILE(1, 1, 0)"})
      EXPECT_EQ(compare_with_reference(sink(effects), parse_opts(opts), named_target(name), 1), "") << name;
}

void check_random_list(std::uint32_t seed) {
  constexpr const char* kTargets[] = {"ref",
                                      "x86-64-v2",
                                      "x86-64-v3",
                                      "x86-64-v4",
                                      "sm_90a",
                                      "sm_80",
                                      "x86-64-v4+avx512bf16+avx512vnni",
                                      "x86-64-v3+avxvnni"};
  Scope scope;
  std::mt19937 random(seed);
  std::vector<NamedKernel> kernels = small_kernels();
  const NamedKernel& k = kernels[random() % kernels.size()];
  Target target = named_target(kTargets[random() % std::size(kTargets)]);
  std::vector<Opt> opts = random_options(k.kernel, target, random);
  try {
    ASSERT_EQ(compare_with_reference(k.kernel, opts, target, seed), "")
        << k.name << ", FUZZ_SEED=" << seed << ", " << target.name << ", " << to_string(opts);
  } catch (const Error& e) {
    FAIL() << k.name << ", seed " << seed << ", " << target.name << ", " << to_string(opts) << "\n"
           << e.what();
  }
}

TEST(Options, RandomListsKeepTheResult) {
  for (FuzzSeeds seeds(800); seeds.next() && !HasFatalFailure();)
    check_random_list(static_cast<std::uint32_t>(seeds.seed()));
}

// Two or four neighbours of a warp exchange their parts without shared memory, so nothing else says that they
// meet.
TEST(Options, SumsOfNeighboursInAWarpAreTheSumsInEveryForm) {
  Scope scope;
  for (const char* name : {"sm_80", "sm_89", "sm_90a"})
    for (const char* opts : {"LOCAL(0, 32) GROUP(0, 2)", "LOCAL(0, 32) GROUP(0, 4)",
                             "LOCAL(0, 16) GROUP(0, 4)", "LOCAL(0, 8) GROUP(0, 4)"}) {
      EXPECT_EQ(compare_with_reference(row_sum(64, 256), parse_opts(opts), named_target(name), 1), "")
          << opts << " on " << name;
      EXPECT_EQ(compare_with_reference(block_matvec(32, 4), parse_opts(opts), named_target(name), 1), "")
          << opts << " on " << name;
    }
}

// A group's threads copy different rows of a panel, so they cannot add up one row's mean together meanwhile.
TEST(Options, APanelOfWhatAGroupReducesTogetherIsRefused) {
  Scope scope;
  const std::vector<Opt> opts = parse_opts("UPCAST(0, 2) STAGE(2, 2, 1) GROUP(0, 3)");
  EXPECT_THROW(apply_options(variances(5, 24), opts, named_target("sm_90a")), KernelOptError);
}

// The rows of a ragged sum have lengths of their own, so no panel holds several of them.
TEST(Options, APanelOfRowsOfDifferentLengthIsRefused) {
  Scope scope;
  const Target target = named_target("x86-64-v3");
  const std::vector<Opt> opts = parse_opts("TILE(1, 3, 1) PADTO(2, 5) STAGE(-1, 1, 1)");
  EXPECT_THROW(apply_options(ragged_sum(7, 6), opts, target), KernelOptError);
}

TEST(Options, ReplayGivesTheSameProgram) {
  Scope scope;
  Node k = convolution(2, 3, 4, 6, 3);
  for (const char* name : {"x86-64-v3", "x86-64-v4", "sm_90a"}) {
    Target target = named_target(name);
    std::vector<Opt> opts = choose_options(k, target);
    Program first = lower_kernel(k, opts, target, "k");
    Program again = lower_kernel(k, parse_opts(to_string(opts)), target, "k");
    EXPECT_EQ(print_program(first), print_program(again));
  }
}

// Tiles of keys that come after every row of a step are masked whole: they are not computed.
TEST(Options, CausalAttentionEndsBeforeTilesThatAreMasked) {
  Scope scope;
  auto lengths_known = [](Node kernel) {
    std::vector<Node> order = toposort(kernel);
    return std::all_of(order.begin(), order.end(),
                       [](Node n) { return !n.is(Op::Range) || n.arg(0).is_const(); });
  };
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (const char* opts : {"UPCAST(0, 4)", "UPCAST(0, 3)", "THREAD(0, 2)",
                             "UPCAST(1, 8) UPCAST(0, 2) THREAD(0, 3)", "UNROLL(1, 4) UNROLL(1, 4)"})
      for (std::int64_t rows : {12, 7, 30}) {
        const Target target = named_target(name);
        Node masked = attention(rows, 3, 4, 8, true), open = attention(rows, 3, 4, 8);
        SCOPED_TRACE(std::string(opts) + " on " + name);
        EXPECT_EQ(compare_with_reference(masked, parse_opts(opts), target, 1), "") << rows;
        EXPECT_FALSE(lengths_known(apply_options(masked, parse_opts(opts), target)));
        EXPECT_TRUE(lengths_known(apply_options(open, parse_opts(opts), target)));
      }
  // Where the loop of the tiles was put outside of the rows, its length cannot depend on them.
  const std::vector<Opt> outside = parse_opts("UNROLL(1, 4) UPCAST(2, 4) UPCAST(1, 3) SWAP(3, 0)");
  EXPECT_EQ(compare_with_reference(attention(10, 3, 4, 8, true), outside, named_target("x86-64-v2"), 1), "");
}

}  // namespace
}  // namespace lathe::test
