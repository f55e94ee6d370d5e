// STAGE and PIPELINE: what is in a panel, how it is copied, and what is fetched ahead of its use.
#include <gtest/gtest.h>

#include <set>

#include <fmt/format.h>

#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "codegen/options/option_state.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "lathe/options.h"

namespace lathe::test {
namespace {

TEST(Panels, PipelineChangesNoValue) {
  Scope scope;
  EXPECT_EQ(compare_with_reference(matmul(8, 8, 8), parse_opts("TILE(2, 4) STAGE(2, 0, 0) PIPELINE(2, 2)"),
                                   named_target("ref"), 1),
            "");
}

// Lines of a step's tile are shared out among the passes of the loops inside: 8 rows of k in 2 passes, two
// lines each.
TEST(Panels, PipelineFetchesWhatTheNextStepReads) {
  Scope scope;
  Node kernel = matmul(8, 64, 8);
  const std::vector<Opt> opts = parse_opts("UPCAST(0, 4) UPCAST(1, 32) SWAP(0, 1) PIPELINE(0, 1)");
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const Target target = named_target(name);
    EXPECT_EQ(compare_with_reference(kernel, opts, target, 1), "");
    int fetches = 0;
    std::int64_t lines = 0;
    for (Node n : lower_kernel(kernel, opts, target, "k").code) {
      if (n.is(Op::Range) && !n.arg(0).is_const_int(2)) lines = lines == 0 ? n.arg(0).const_int() : lines;
      if (!n.is(Op::Prefetch)) continue;
      ++fetches;
      EXPECT_EQ(param_slot(base_memory(n.arg(0))), 2);
    }
    EXPECT_EQ(fetches, 1);
    EXPECT_EQ(lines, 8);
  }
  // Groups have copies of their own that run ahead (group_panels_test.cpp).
  EXPECT_THROW(apply_options(kernel, parse_opts("PIPELINE(0, 1)"), named_target("sm_90a")), KernelOptError);
}

// Where a pass has many lines to ask for, each step of the sum asks for one of them, and all are asked for.
TEST(Panels, PipelineSpreadsManyLinesOverTheStepsOfASum) {
  Scope scope;
  for (std::int64_t k : {64, 48, 67}) {
    Node kernel = matmul(8, 128, k);
    const std::vector<Opt> opts = parse_opts("UPCAST(0, 4) UPCAST(1, 32) SWAP(0, 1) PIPELINE(0, 1)");
    for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
      const Target target = named_target(name);
      EXPECT_EQ(compare_with_reference(kernel, opts, target, 1), "");
      int open = 0, fetches = 0;
      for (Node n : lower_kernel(kernel, opts, target, "k").code) {
        open += n.is(Op::Range);
        open -= n.is(Op::End);
        if (!n.is(Op::Prefetch)) continue;
        ++fetches;
        EXPECT_EQ(open, 3);  // columns, rows and the steps of the sum
      }
      EXPECT_EQ(fetches, 1);
    }
  }
}

// A line of each of four rows, before the first of them is read; the vector that all rows share is not asked
// for, nor are steps shorter than half a line.
TEST(Panels, PipelineInASumFetchesTheLinesOfLaterSteps) {
  Scope scope;
  Node kernel = matvec(8, 512, dtypes::Int8);
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const Target target = named_target(name);
    const std::vector<Opt> opts = parse_opts("UNROLL(0, 8) UNROLL(0, 8) UPCAST(0, 4) PIPELINE(1, 4)");
    EXPECT_EQ(compare_with_reference(kernel, opts, target, 1), "");
    std::set<std::int64_t> offsets;
    bool read = false;
    for (Node n : lower_kernel(kernel, opts, target, "k").code) {
      read |= n.is(Op::Load) && base_memory(n.arg(0)).is(Op::Param) && n.arg(0).dtype() == dtypes::Int8;
      if (!n.is(Op::Prefetch)) continue;
      EXPECT_FALSE(read);
      EXPECT_EQ(n.arg(0).dtype(), dtypes::Int8);
      EXPECT_EQ(n.int_attr(), 1);
      offsets.insert(n.arg(1).arg(1).const_int());
    }
    EXPECT_EQ(offsets, (std::set<std::int64_t>{256, 256 + 512, 256 + 1024, 256 + 1536}));
    for (Node n : lower_kernel(kernel, parse_opts("UNROLL(0, 16) PIPELINE(1, 4)"), target, "k").code)
      EXPECT_FALSE(n.is(Op::Prefetch));
  }
}

TEST(Panels, APanelBeforeAllLoopsHoldsWhatTheThreadNeeds) {
  Scope scope;
  for (const char* opts : {"STAGE(-1, 0, 0) STAGE(-1, 1, 1)", "STAGE(-1, 1, 0) THREAD(0, 3) TILE(2, 2, 0)",
                           "THREAD(1, 2) STAGE(-1, 1, 0) UPCAST(2, 4) SWAP(1, 3)"})
    for (const char* target : {"ref", "x86-64-v4", "sm_90a"}) {
      if (std::string_view(opts).find("THREAD") != std::string_view::npos && !named_target(target).threads)
        continue;
      EXPECT_EQ(compare_with_reference(matmul(7, 9, 5), parse_opts(opts), named_target(target), 1), "")
          << opts << " " << target;
    }
}

TEST(Panels, TheWorkedMatrixProductIsRightAtSmallOddSizes) {
  Scope scope;
  const char* opts =
      "UPCAST(0, 3) UPCAST(1, 8) THREAD(1, 2) TILE(2, 2, 1) TILE(4, 5, 2) STAGE(2, 0, 0) TILE(3, 2, 3) "
      "STAGE(3, 1, 0) "
      "SWAP(4, 5)";
  for (const char* target : {"ref", "x86-64-v3", "x86-64-v4"}) {
    EXPECT_EQ(compare_with_reference(matmul(13, 37, 11), parse_opts(opts), named_target(target), 1), "");
    EXPECT_EQ(compare_with_reference(bias_relu_matmul(13, 37, 11), parse_opts(opts), named_target(target), 1),
              "");
  }
}

TEST(Panels, APanelInTheOrderOfItsSourceHoldsEveryElementOnce) {
  Scope scope;
  // Windows of 3 x 3 over 6 x 6 pixels with a border: 8 rows of 8 for each of 3 channels.
  Node k = convolution(2, 3, 4, 6, 3);
  std::vector<Node> values = stageable_values(k);
  std::int64_t pixels = 0;
  while (param_slot(base_memory(values[static_cast<std::size_t>(pixels)].arg(0))) != 1) ++pixels;
  for (const char* target : {"ref", "x86-64-v3", "x86-64-v4", "sm_90a"}) {
    std::vector<Opt> opts{{OptOp::STAGE, 0, {pixels, 1}}};
    std::string text = print_graph(apply_options(k, opts, named_target(target)));
    bool whole = std::string_view(target).starts_with("x86");  // elsewhere every group has its own pixel
    bool found = text.find("Define.f32 [0, 192, ") != std::string::npos;
    EXPECT_TRUE(found || !whole) << target << "\n" << text;
    EXPECT_EQ(compare_with_reference(k, opts, named_target(target), 1), "");
    opts.insert(opts.begin(), {OptOp::UPCAST, 3, {2}});
    EXPECT_EQ(compare_with_reference(k, opts, named_target(target), 1), "");
  }
}

// Rows of 512 floats, half a page each, would share two places of the first cache: a line more between them.
TEST(Panels, RowsOfAPanelDoNotMeetInTheCache) {
  Scope scope;
  Node kernel = matmul(12, 8, 512);
  const std::vector<Opt> opts = parse_opts("UPCAST(0, 6) UPCAST(1, 8) STAGE(0, 0, 1)");
  for (const char* target : {"x86-64-v3", "x86-64-v4"}) {
    EXPECT_EQ(compare_with_reference(kernel, opts, named_target(target), 1), "");
    const std::string text = print_graph(apply_options(kernel, opts, named_target(target)));
    EXPECT_NE(text.find("Define.f32 [0, 3168, "), std::string::npos) << target << "\n" << text;  // 6 * 528
  }
}

// Rows of six elements that lie one behind the other are copied as one row of 144, by vectors.
TEST(Panels, APanelOfShortRowsIsCopiedByVectors) {
  Scope scope;
  Node kernel = weight_gradient(4, 5, 6, 3);
  const std::vector<Opt> opts = parse_opts("UPCAST(0, 5) STAGE(0, 0, 1)");
  for (const char* target : {"ref", "x86-64-v2", "x86-64-v3", "x86-64-v4", "sm_90a"})
    EXPECT_EQ(compare_with_reference(kernel, opts, named_target(target), 1), "");
  bool by_vectors = false;
  for (Node n : lower_kernel(kernel, opts, named_target("x86-64-v4"), "k").code)
    by_vectors |= n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Define) && n.arg(2).dtype().lanes == 16;
  EXPECT_TRUE(by_vectors);
}

// Copies of a row have their parts of a panel beside each other, and each is written and read for itself: one
// is not read along with another that is not there yet.
Node scaled_rows_plus_sum(std::int64_t rows, std::int64_t columns) {
  const Node n = index_const(columns);
  Node i = range(index_const(rows), 0, RangeKind::Global), fill = range(n, 1, RangeKind::Loop),
       out = range(n, 2, RangeKind::Loop), k = range(n, 3, RangeKind::Reduce), row[] = {i, out};
  auto from = [&](int slot, Node at) {
    return load(param(dtypes::Float32, slot, rows * columns), i * n + at);
  };
  auto x = [&](Node at) { return from(1, at); };
  Node panel = define(dtypes::Float32, 0, columns, Space::Register),
       scale = load(param(dtypes::Float32, 2, rows), i);
  Node filled = end(store(after(panel, {&i, 1}), fill, x(fill) * scale), {&fill, 1});
  Node full = after(panel, {&filled, 1});
  Node sum = reduce_ranges(Op::Add, x(k) * load(full, k) * from(3, k) * from(4, k), {&k, 1});
  Node effect =
      end(store(param(dtypes::Float32, 0, rows * columns), i * n + out, sum + load(full, out)), row);
  return sink({&effect, 1});
}

TEST(Panels, ACopyOfARowReadsOnlyWhatItWrote) {
  Scope scope;
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"})
    for (std::int64_t rows : {3, 19})
      for (std::int64_t columns : {8, 24})
        for (const char* before :
             {"UPCAST(1, {0}) UNROLL(0, {0})", "UPCAST(1, {0}) UPCAST(1, {0}) UNROLL(0, {0})",
              "UPCAST(2, {0}) UPCAST(1, {0}) UNROLL(0, {0})"})
          for (std::int64_t copies : {2, 4}) {
            const std::string opts =
                fmt::format(fmt::runtime(before), columns) + fmt::format(" UPCAST(0, {})", copies);
            EXPECT_EQ(compare_with_reference(scaled_rows_plus_sum(rows, columns), parse_opts(opts),
                                             named_target(name), 1),
                      "")
                << opts << " on " << name;
          }
}

// Each store sums in a nest of its own, and what is copied for the value behind the sum belongs to that nest.
TEST(Panels, StoresThatSumApartDoNotShareThePanelsOfWhatFollows) {
  Scope scope;
  Node i = range(index_const(3), 0, RangeKind::Global), j = range(index_const(4), 1, RangeKind::Global),
       k = range(index_const(3), 2, RangeKind::Reduce), both[] = {i, j};
  auto x = [&](int slot, std::int64_t size, Node at) { return load(param(dtypes::Float32, slot, size), at); };
  Node at = i * index_const(4) + j;
  Node product = x(2, 9, i * index_const(3) + k) * x(3, 12, k * index_const(4) + j);
  Node value = reduce_ranges(Op::Add, product, {&k, 1}) + x(4, 12, at);
  Node effects[] = {end(store(param(dtypes::Float32, 0, 12), at, value), both),
                    end(store(param(dtypes::Float32, 1, 12), at, value * value), both)};
  for (const char* name : {"ref", "x86-64-v3", "x86-64-v4"})
    for (const char* opts : {"STAGE(0, 2, 0) TILE(2, 1, 0)", "STAGE(1, 2, 0) TILE(2, 1, 0)",
                             "UPCAST(0, 16) TILE(1, 1, 0) STAGE(1, 2, 0)"})
      EXPECT_EQ(compare_with_reference(sink(effects), parse_opts(opts), named_target(name), 1), "")
          << opts << " on " << name;
}

}  // namespace
}  // namespace lathe::test
