// What the heuristic chooses: which options, that results stay, and that nothing but kernel and target
// decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/env.h"
#include "codegen/choose/lay_out_factors.h"
#include "codegen/choose/split_sum.h"
#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "codegen/options/option_state.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe::test {
namespace {

// Every kernel, with the options the heuristic gives it, for every named target.
TEST(Heuristic, ItsChoicesKeepTheResult) {
  Scope scope;
  for (const NamedKernel& k : small_kernels())
    for (const std::string& name : target_names()) {
      Target target = named_target(name);
      std::vector<Opt> opts = choose_options(k.kernel, target);
      EXPECT_EQ(compare_with_reference(k.kernel, opts, target, 1), "") << k.name;
    }
}

// The same for kernels that walk over much memory, made small by small caches.
TEST(Heuristic, WalksOverMemoryKeepTheResult) {
  Scope scope;
  for (const std::string& name : target_names()) {
    Target target = named_target(name);
    target.l1 = 512, target.l2 = 4096, target.l3 = 1024;
    for (const NamedKernel& k : std::initializer_list<NamedKernel>{
             {"float", matvec(64, 128, dtypes::Float32)},
             {"bf16", matvec(64, 256, dtypes::BFloat16)},
             {"bytes", matvec(64, 256, dtypes::Int8)},
             {"bytes, rows that divide by nothing", matvec(67, 128, dtypes::Int8)},
             {"blocks", block_matvec(32, 4)},
             {"sums", row_sum(64, 256)},
             {"elements", scale_add(4096)},
             {"columns", column_sums(8, 4, 32)},
             {"columns, in strips and under a mask", column_sums(6, 5, 700)}})
      EXPECT_EQ(compare_with_reference(k.kernel, choose_options(k.kernel, target), target, 1), "") << k.name;
  }
}

// Lanes of blocks for the dot-product instructions, with and without threads, and where they cannot be.
TEST(Heuristic, BlocksOfSmallIntegersAreSummedBeforeTheyAreScaled) {
  Scope scope;
  for (const char* name : {"x86-64-v4+avx512vnni", "x86-64-v3+avxvnni", "x86-64-v3", "x86-64-v4"}) {
    Target target = named_target(name);
    for (int cores : {1, 4}) {
      target.cores = cores;
      for (std::int64_t rows : {1, 2, 3, 260, 301})
        for (std::int64_t blocks : {8, 16, 48, 13, -8, -32}) {
          Node kernel = blocks > 0 ? block_matvec_bytes(rows, blocks) : byte_block_matvec(rows, -blocks);
          const std::vector<Opt> opts = choose_options(kernel, target);
          EXPECT_EQ(!opts.empty() && opts[0].op == OptOp::TC, blocks % 4 == 0) << to_string(opts);
          EXPECT_EQ(compare_with_reference(kernel, opts, target, 1), "") << rows << " x " << blocks;
        }
    }
  }
}

// Blocks with a scale of their own among the bytes, a distance apart that is no whole words; one row and
// many.
TEST(Heuristic, BlocksThatLieAnywhereHaveLanesOfTheirOwn) {
  Scope scope;
  for (const char* name : {"x86-64-v4+avx512vnni", "x86-64-v3+avxvnni", "x86-64-v3"})
    for (int cores : {1, 4})
      for (std::int64_t others : {1, 2, 5, 17, 40})
        for (std::int64_t rows : {3, 24})
          for (std::int64_t blocks : {4, 16, 24, 7}) {
            Target target = named_target(name);
            target.cores = cores;
            Node kernel = packed_block_product(others, rows, blocks);
            const std::vector<Opt> opts = choose_options(kernel, target);
            EXPECT_EQ(!opts.empty() && opts[0].op == OptOp::TC, blocks % 4 == 0) << to_string(opts);
            EXPECT_EQ(compare_with_reference(kernel, opts, target, 1), "")
                << others << " x " << rows << " x " << blocks;
          }
}

// How the sum of a row is divided follows from its length alone: as scheduled for one row and for many.
TEST(Heuristic, InAnInvariantCompileARowsSumIsDividedAlikeInAnyBatch) {
  Scope scope;
  for (const char* name : {"x86-64-v4+avx512vnni", "x86-64-v3"}) {
    Compile compile(named_target(name));
    compile.invariant = true;
    const auto unrolled = [&](Node kernel) {
      std::vector<Opt> out;
      for (Opt& o : choose_options(kernel, compile)) {
        EXPECT_EQ(compare_with_reference(kernel, choose_options(kernel, compile), compile.target, 1), "");
        if (o.op == OptOp::UNROLL) out.push_back(std::move(o));
      }
      return to_string(out);
    };
    for (std::int64_t blocks : {4, 16, 40})
      for (std::int64_t others : {2, 9, 40})
        EXPECT_EQ(unrolled(packed_block_product(others, 24, blocks)),
                  unrolled(packed_block_product(1, 24, blocks)));
    for (std::int64_t rows : {1, 3, 64}) EXPECT_EQ(unrolled(row_sum(rows, 96)), unrolled(row_sum(7, 96)));
  }
}

// Keys of all tiles lie in one panel; where there are few rows, or the keys are no whole vectors, they stay
// where they are.
TEST(Heuristic, ScoresOfAttentionHaveLanesAlongTheKeys) {
  Scope scope;
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    const Target target = named_target(name);
    for (bool causal : {false, true})
      for (std::int64_t rows : {24, 17, 8})
        for (std::int64_t tile : {32, 20, 21}) {
          Node kernel = attention(rows, 3, tile, 8, causal);
          const std::vector<Opt> opts = choose_options(kernel, target);
          const bool staged =
              std::any_of(opts.begin(), opts.end(), [](const Opt& o) { return o.op == OptOp::STAGE; });
          EXPECT_EQ(staged, rows >= 16 && tile % (target.vector_bytes / 4) == 0) << to_string(opts);
          EXPECT_EQ(compare_with_reference(kernel, opts, target, 1), "") << rows << " x " << tile;
        }
  }
}

// out[o, x] = sum of w[o, c, k] * in[c, x + k - 1] with a border of zeros, widened before the border was put
// on.
Node bordered_product(std::int64_t outputs, std::int64_t size, std::int64_t channels) {
  Node o = range(index_const(outputs), 0, RangeKind::Global),
       x = range(index_const(size), 1, RangeKind::Global);
  Node c = range(index_const(channels), 2, RangeKind::Reduce),
       k = range(index_const(3), 3, RangeKind::Reduce);
  Node at = x + k + index_const(-1);
  Node inside = logical_and(less(at, index_const(size)), logical_not(less(at, index_const(0))));
  Node in = load(param(dtypes::BFloat16, 1, channels * size), c * index_const(size) + at, inside);
  Node weight = load(param(dtypes::BFloat16, 2, outputs * channels * 3),
                     o * index_const(channels * 3) + c * index_const(3) + k);
  Node element = where(inside, cast(in, dtypes::Float32), float_const(dtypes::Float32, 0)) *
                 cast(weight, dtypes::Float32);
  Node closed[] = {c, k}, outer[] = {o, x};
  Node effect = end(store(param(dtypes::Float32, 0, outputs * size), o * index_const(size) + x,
                          reduce_ranges(Op::Add, element, closed)),
                    outer);
  return sink({&effect, 1});
}

// Tiles of products whose sizes they do not divide, with panels that the threads of a group fill together.
TEST(Heuristic, ProductsOfGroupsKeepTheResult) {
  Scope scope;
  const Target target = named_target("sm_90a");
  const NamedKernel kernels[] = {
      {"even", matmul(64, 64, 32)},
      {"odd", matmul(52, 68, 37)},
      {"one piece short", matmul(36, 60, 44)},
      {"few steps", matmul(64, 48, 6)},
      {"bf16", small_matmul(64, 72, 64, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32)},
      {"convolution", convolution(1, 16, 20, 17, 3)},
      {"bf16 in a border", bordered_product(20, 28, 48)},
      {"row sums", row_sum(20, 1000)},
  };
  for (const NamedKernel& k : kernels) {
    const std::vector<Opt> opts = choose_options(k.kernel, target);
    const bool product = k.name != "row sums";
    EXPECT_EQ(std::count_if(opts.begin(), opts.end(), [](const Opt& o) { return o.op == OptOp::STAGE; }),
              product ? 2 : 0)
        << k.name << ": " << to_string(opts);
    EXPECT_EQ(opts[0].op == OptOp::TC, k.name.starts_with("bf16")) << k.name << ": " << to_string(opts);
    EXPECT_EQ(compare_with_reference(k.kernel, opts, target, 3), "") << k.name;
  }
}

// A panel is copied by as many threads as there are, a wide load at a time, whichever ranges its value has.
TEST(Heuristic, RowsOfGroupsKeepTheResult) {
  Scope scope;
  for (const char* name : {"sm_80", "sm_90a"}) {
    const Target target = named_target(name);
    for (std::int64_t columns : {17, 40, 64, 100, 256, 320, 500, 777})
      for (std::int64_t rows : {3, 8}) {
        Node kernel = centred_rows(rows, columns);
        const std::vector<Opt> opts = choose_options(kernel, target);
        EXPECT_EQ(compare_with_reference(kernel, opts, target, 3), "") << to_string(opts);
      }
  }
}

// Two reduces with nothing but their result below them: no thread does all steps of either.
TEST(Heuristic, ReducesOneAfterTheOtherAreSharedByTheSameThreads) {
  Scope scope;
  const Target target = named_target("sm_90a");
  for (std::int64_t columns : {100, 640}) {
    Node kernel = variances(8, columns);
    const std::vector<Opt> opts = choose_options(kernel, target);
    EXPECT_EQ(std::count_if(opts.begin(), opts.end(), [](const Opt& o) { return o.op == OptOp::GROUP; }), 2)
        << to_string(opts);
    EXPECT_EQ(compare_with_reference(kernel, opts, target, 3), "");
    const Program program = lower_kernel(kernel, opts, target, "variances");
    std::int64_t threads = 1;
    for (const NodeRef& size : program.locals)
      if (size) threads *= size.node().const_int();
    EXPECT_LE(threads, 128) << to_string(opts);
  }
}

// Three loops over a row, each divided among the same threads: what one of them has read the others have.
TEST(Heuristic, RowsOfGroupsAreReadOnce) {
  Scope scope;
  const Target target = named_target("sm_90a");
  Node kernel = centred_rows(512, 4096);
  const std::vector<Opt> opts = choose_options(kernel, target);
  const Program program = lower_kernel(kernel, opts, target, "rows");
  EXPECT_EQ(program.locals[0].node().const_int(), 128) << to_string(opts);
  std::int64_t elements = 0, loops = 0;
  for (const NodeRef& n : program.code) {
    if (n->is(Op::Load) && base_memory(n->arg(0)).is(Op::Param)) elements += n->dtype().lanes;
    loops += n->is(Op::Range);
  }
  EXPECT_EQ(elements, 4096 / 128);
  EXPECT_EQ(loops, 0);
}

// A cache's keys: how many there are is known at the launch, and the outputs alone would leave the chip idle.
TEST(Heuristic, AFewLongSumsOfUnknownLengthAreShared) {
  Scope scope;
  const Target target = named_target("sm_90a");
  Node kernel = symbolic_columns(64, 1024);
  const std::vector<Opt> opts = choose_options(kernel, target);
  EXPECT_TRUE(std::ranges::any_of(opts, [](const Opt& opt) { return opt.op == OptOp::GROUP; }))
      << to_string(opts);
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    EXPECT_EQ(compare_with_reference(kernel, opts, target, seed), "");
  for (const Opt& opt : choose_options(symbolic_columns(1 << 14, 1024), target))
    EXPECT_NE(opt.op, OptOp::GROUP) << "these are enough for all threads";
}

// A thread for each of some ten thousand columns leaves most of the chip idle. Where there are enough
// columns, or their sums are short, nothing is shared.
TEST(Heuristic, SumsThatAreTooFewForTheChipAreShared) {
  Scope scope;
  const Target target = named_target("sm_90a");
  const auto parts = [&](std::int64_t rows, std::int64_t columns) {
    for (const Opt& opt : choose_options(column_sums(1, rows, columns), target))
      if (opt.op == OptOp::GROUP) return opt.arg[0];
    return std::int64_t{1};
  };
  EXPECT_GE(parts(4096, 16384), 4);
  EXPECT_EQ(parts(16, 16384), 1);
  EXPECT_EQ(parts(4096, 1 << 20), 1);
  EXPECT_EQ(parts(4095, 16384), 1) << "no whole parts";
  Node kernel = column_sums(1, 96, 16384);
  const std::vector<Opt> opts = choose_options(kernel, target);
  EXPECT_NE(to_string(opts).find("GROUP"), std::string::npos) << to_string(opts);
  EXPECT_EQ(compare_with_reference(kernel, opts, target, 1), "");
}

// A rule that the code knows by another name would change none.
TEST(Heuristic, EachRuleChangesTheOptionsOfSomeKernel) {
  Scope scope;
  std::vector<NamedKernel> kernels = small_kernels();
  kernels.push_back({"product", matmul(512, 512, 512)});
  kernels.push_back({"wide product", matmul(64, 3136, 256)});
  kernels.push_back({"gradient with a border", input_gradient(8, 32, 32, 24, 5)});
  kernels.push_back({"product from memory", matmul(64, 1 << 16, 256)});
  kernels.push_back({"long sum", row_sum(4, 1 << 16)});
  kernels.push_back({"many rows", row_sum(1 << 14, 1024)});
  kernels.push_back({"attention", attention(64, 4, 32, 64)});
  kernels.push_back({"unit attention", unit_attention(4, 256, 2, 64, true)});
  kernels.push_back({"long rows", centred_rows(64, 1024)});
  kernels.push_back({"blocks of 4 bits", block_matvec(8192, 64)});
  kernels.push_back({"bytes by a vector", matvec(8192, 8192, dtypes::Int8)});
  kernels.push_back(
      {"bf16", small_matmul(256, 256, 256, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32)});
  kernels.push_back(
      {"large bf16", small_matmul(4096, 4096, 256, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32)});
  kernels.push_back({"bf16 in rows of no whole pieces",
                     small_matmul(256, 256, 255, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32)});
  kernels.push_back({"channels as neighbours", channel_convolution(2, 64, 64, 8, 3)});
  kernels.push_back(
      {"large fp8", unit_matmul(4096, 4096, 1024, dtypes::Fp8e4m3, dtypes::Fp8e4m3, true, true)});
  kernels.push_back({"turned", transpose(64, 64)});
  kernels.push_back({"weights of a first layer", weight_gradient(2, 16, 6, 5)});
  kernels.push_back({"images of bf16", convolution(64, 256, 256, 56, 3, dtypes::BFloat16)});
  kernels.push_back({"long bf16", bf16_matmul(256, 2304, 1 << 16)});
  std::vector<std::string> targets = target_names();
  targets.emplace_back("x86-64-v4+avx512bf16");
  targets.emplace_back("x86-64-v4+amx-tile+amx-bf16");
  auto chosen = [](Node kernel, const Compile& compile) {
    return to_string(choose_options(kernel, compile)) +
           (lay_out_factors(kernel, compile) ? " laid out" : "") +
           (split_sum(kernel, compile) ? " in parts" : "");
  };
  for (const HeuristicRule& rule : heuristic_rules()) {
    bool changed = false;
    for (const NamedKernel& k : kernels)
      for (const std::string& name : targets) {
        Target target = named_target(name);
        const std::string with = chosen(k.kernel, target);
        Compile without(target);
        without.rules.disabled = {rule.name};
        changed |= chosen(k.kernel, without) != with;
      }
    EXPECT_TRUE(changed) << rule.name;
  }
}

// Not of what was compiled before, of where nodes lie, of how many CPUs may be used, nor of the thread.
TEST(Heuristic, IsAFunctionOfKernelAndTargetAlone) {
  const Target targets[] = {named_target("x86-64-v4"), named_target("sm_90a")};
  const auto chosen = [&](bool backwards) {
    Scope scope;
    std::vector<NamedKernel> kernels = small_kernels();
    for (std::int64_t n : {512, 1000}) kernels.push_back({"matmul", matmul(n, n, n)});
    std::vector<std::string> lists(2 * kernels.size());
    for (std::size_t k = 0; k < lists.size(); ++k) {
      const std::size_t i = backwards ? lists.size() - 1 - k : k;
      lists[i] = to_string(choose_options(kernels[i / 2].kernel, targets[i % 2]));
    }
    return lists;
  };
  const std::vector<std::string> first = chosen(false);
  std::vector<std::string> again;
  const FlagScope one_thread(Flag::Threads, "1");
  std::thread([&] { again = chosen(true); }).join();
  EXPECT_EQ(first, again);
}

// What splits a reduce may not depend on how many cores there are: results would.
TEST(Heuristic, CoresDoNotChangeHowReducesAreSplit) {
  Scope scope;
  auto reduce_splits = [](Node kernel, int cores) {
    Target target = named_target("x86-64-v4");
    target.cores = cores;
    OptionState state(kernel, target);
    std::string out;
    for (const Opt& opt : choose_options(kernel, target)) {
      bool tiles =
          opt.op == OptOp::TILE && state.axes()[static_cast<std::size_t>(opt.axis)].kind == RangeKind::Reduce;
      if (tiles || opt.op == OptOp::UNROLL)
        out += std::string(name(opt.op)) + " " + std::to_string(opt.arg[0]) + " ";
      state.apply(opt);
    }
    return out;
  };
  for (Node k :
       {row_sum(512, 1024), row_sum(1 << 14, 1024), matmul_transposed(512, 10, 576), matmul(64, 512, 512),
        matmul(1000, 1000, 1000), column_sum(512, 512), total(100000), convolution(8, 16, 32, 24, 3)})
    EXPECT_EQ(reduce_splits(k, 1), reduce_splits(k, 64));
}

TEST(Heuristic, PinnedChoices) {
  Scope scope;
  struct Row {
    Node kernel;
    const char* v3;
    const char* v4;
  };
  const Row rows[] = {
      {scale_add(1 << 20), "UPCAST(0, 16) THREAD(0, 8)", "UPCAST(0, 32) THREAD(0, 8)"},
      {scale_add(16), "UPCAST(0, 16)", "UPCAST(0, 16)"},
      {row_sum(512, 1024), "UNROLL(0, 32) THREAD(0, 8)", "UNROLL(0, 64) THREAD(0, 8)"},
      {column_sum(512, 512), "UPCAST(0, 32) THREAD(0, 8)", "UPCAST(0, 64) THREAD(0, 8)"},
      {total(1 << 20), "UNROLL(0, 32)", "UNROLL(0, 64)"},
      // Larger than the last cache: several walks over memory at a time, three things here and one below.
      {scale_add(1 << 24), "UPCAST(0, 32) THREAD(0, 8) TILE(1, 4096) UPCAST(1, 2)",
       "UPCAST(0, 64) THREAD(0, 8) TILE(1, 4096) UPCAST(1, 2)"},
      // One thing read and one written: four walks, each of which has its turn for four vectors, where they
      // divide it evenly.
      {scaled(1 << 24), "UPCAST(0, 8) THREAD(0, 8) TILE(1, 16384) UPCAST(1, 4) UPCAST(2, 4)",
       "UPCAST(0, 16) THREAD(0, 8) TILE(1, 16384) UPCAST(1, 4) UPCAST(2, 4)"},
      {scaled(1 << 23), "UPCAST(0, 8) THREAD(0, 8) TILE(1, 16384) UPCAST(1, 4) UPCAST(2, 4)",
       "UPCAST(0, 32) THREAD(0, 8)"},
      {scaled(16 * 1000003), "UPCAST(0, 16) THREAD(0, 4)", "UPCAST(0, 16) THREAD(0, 4)"},
      {row_sum(1 << 14, 1024), "UNROLL(0, 16) THREAD(0, 8) TILE(1, 128) UPCAST(1, 4)",
       "UNROLL(0, 32) THREAD(0, 8) TILE(1, 256) UPCAST(1, 4)"},
      // A vector that the first cache does not hold is shared by more walks over small numbers.
      {matvec(8192, 8192, dtypes::Float32), "UNROLL(0, 16) THREAD(0, 8) TILE(1, 16) UPCAST(1, 4)",
       "UNROLL(0, 32) THREAD(0, 8) TILE(1, 32) UPCAST(1, 4)"},
      {matvec(8192, 8192, dtypes::BFloat16),
       "UNROLL(0, 8) UNROLL(0, 4) THREAD(0, 8) TILE(1, 64) UPCAST(1, 8) PIPELINE(3, 4)",
       "UNROLL(0, 32) UNROLL(0, 4) THREAD(0, 8) TILE(1, 128) UPCAST(1, 8)"},
      {matvec(8192, 8192, dtypes::Int8),
       "UNROLL(0, 8) UNROLL(0, 8) THREAD(0, 8) TILE(1, 128) UPCAST(1, 8) PIPELINE(2, 4)",
       "UNROLL(0, 16) UNROLL(0, 4) THREAD(0, 8) TILE(1, 128) UPCAST(1, 8) PIPELINE(2, 4)"},
      {matvec(32768, 2048, dtypes::Int8), "UNROLL(0, 16) THREAD(0, 8) TILE(1, 256) UPCAST(1, 4)",
       "UNROLL(0, 32) THREAD(0, 8) TILE(1, 512) UPCAST(1, 4)"},
      // Weights come from memory though a cache would hold them: others were read since.
      {matvec(2048, 1024, dtypes::Float32), "UNROLL(0, 16) THREAD(0, 8) TILE(1, 64) UPCAST(1, 4)",
       "UNROLL(0, 32) THREAD(0, 8) TILE(1, 64) UPCAST(1, 4)"},
      // Scales are widened for a row at a time.
      {block_matvec(8192, 256), "UNROLL(1, 16) THREAD(0, 8) TILE(1, 128) UPCAST(1, 4) STAGE(2, 5, 1)",
       "UNROLL(1, 16) THREAD(0, 8) TILE(1, 256) UPCAST(1, 4) STAGE(1, 5, 1)"},
      // A row of the image in registers, so that no step of the window in its border is taken; where the
      // registers do not hold it or the border is narrow, a tile as of any product.
      {input_gradient(64, 32, 32, 24, 5),
       "UPCAST(3, 6) UPCAST(1, 16) THREAD(0, 2) STAGE(0, 1, 0) STAGE(1, 0, 1)",
       "UNROLL(1, 0) UPCAST(3, 24) UPCAST(1, 16) THREAD(0, 2) STAGE(0, 1, 0) TILE(2, 1, 1)"},
      {input_gradient(64, 64, 64, 8, 3),
       "UNROLL(1, 0) UPCAST(3, 8) UPCAST(1, 8) THREAD(0, 2) STAGE(0, 1, 0) TILE(2, 1, 1)",
       "UNROLL(1, 0) UPCAST(3, 8) UPCAST(1, 32) THREAD(1, 2) STAGE(0, 1, 0)"},
      {input_gradient(64, 64, 64, 30, 3),
       "UPCAST(3, 6) UPCAST(1, 16) THREAD(0, 2) STAGE(0, 1, 0) TILE(3, 10, 2) STAGE(2, 0, 1)",
       "UPCAST(2, 2) UPCAST(3, 6) UPCAST(1, 32) THREAD(0, 2) STAGE(0, 1, 0) STAGE(1, 0, 1)"},
      // Rows of windows together, as many as the registers hold; lanes that lie apart with no loop across
      // them.
      {depthwise(64, 56, 7), "UPCAST(1, 7) UPCAST(2, 8) UNROLL(0, 0) THREAD(0, 8)",
       "UPCAST(1, 14) UPCAST(2, 16) UNROLL(0, 0) THREAD(0, 8)"},
      {depthwise(64, 7, 5), "UPCAST(1, 7) UPCAST(1, 8) UNROLL(0, 0) THREAD(0, 4)",
       "UPCAST(1, 7) UPCAST(1, 8) UNROLL(0, 0) THREAD(0, 4)"},
      {depthwise(64, 112, 3, 2), "UPCAST(1, 8) UPCAST(2, 8) UNROLL(0, 0) UNROLL(0, 0) THREAD(0, 8)",
       "UPCAST(1, 14) UPCAST(2, 16) UNROLL(0, 0) UNROLL(0, 0) THREAD(0, 8)"},
      // A few lines made columns, and columns made lines: whole vectors of either, woven by shuffles.
      {transpose(4, 1 << 16), "UPCAST(0, 16) UPCAST(1, 0) THREAD(0, 8)",
       "UPCAST(0, 32) UPCAST(1, 0) THREAD(0, 8)"},
      {transpose(1 << 16, 3), "UPCAST(1, 16) UPCAST(0, 0) THREAD(0, 8)",
       "UPCAST(1, 32) UPCAST(0, 0) THREAD(0, 8)"},
      // Two reduces one after the other: each has lanes.
      {variances(512, 1024), "UNROLL(1, 32) UNROLL(0, 32) THREAD(0, 8)",
       "UNROLL(1, 64) UNROLL(0, 64) THREAD(0, 8)"},
      // Rows are added whole, the reduce outside the columns; in strips where their sums would leave the
      // cache.
      {column_sums(32, 512, 1024), "UPCAST(1, 64) THREAD(0, 8) TILE(3, 1, 2)",
       "UPCAST(1, 128) THREAD(0, 8) TILE(3, 1, 2)"},
      {column_sums(32, 512, 1000), "UPCAST(1, 8) THREAD(0, 8) TILE(3, 1, 2)",
       "UPCAST(1, 8) THREAD(0, 8) TILE(3, 1, 2)"},
      {column_sums(32, 512, 1001), "UPCAST(1, 8) THREAD(0, 8) TILE(3, 1, 2)",
       "UPCAST(1, 16) THREAD(0, 8) TILE(3, 1, 2)"},
      {column_sums(32, 8, 1 << 17), "UPCAST(1, 64) THREAD(0, 8) TILE(2, 512) TILE(4, 1, 3)",
       "UPCAST(1, 128) THREAD(0, 8) TILE(2, 512) TILE(4, 1, 3)"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(to_string(choose_options(row.kernel, named_target("x86-64-v3"))), row.v3);
    EXPECT_EQ(to_string(choose_options(row.kernel, named_target("x86-64-v4"))), row.v4);
  }
}

// Accumulators, the vectors they are fed with and the repeated scalar must all fit: a spilled accumulator is
// stored and loaded in every step.
TEST(Heuristic, AMatrixProductGetsARegisterTileAndPanels) {
  Scope scope;
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    Target target = named_target(name);
    std::vector<Opt> opts = choose_options(matmul(2048, 2048, 2048), target);
    int upcasts = 0, stages = 0;
    std::int64_t accumulators = 1;
    for (const Opt& opt : opts) {
      if (opt.op == OptOp::UPCAST) ++upcasts, accumulators *= opt.arg[0];
      stages += opt.op == OptOp::STAGE;
    }
    EXPECT_EQ(upcasts, 2) << to_string(opts);
    EXPECT_EQ(stages, 2) << to_string(opts);
    std::int64_t vectors = opts[1].arg[0] * 4 / target.vector_bytes;
    EXPECT_LE(accumulators * 4 / target.vector_bytes + vectors + 1, target.vector_registers)
        << to_string(opts);
    EXPECT_GE(accumulators * 4, target.vector_bytes * target.vector_registers / 2) << to_string(opts);
  }
}

// A strip of lanes that fits the second cache is used by all rows, which pass by as they lie from the third
// one: no partial sums, no second panel. Not where they would take too much of it.
TEST(Heuristic, RowsOfTheThirdCachePassByAStripInTheSecond) {
  Scope scope;
  const auto panels = [](Node kernel, const Target& target) {
    const std::vector<Opt> opts = choose_options(kernel, target);
    return std::count_if(opts.begin(), opts.end(), [](const Opt& o) { return o.op == OptOp::STAGE; });
  };
  Target target = named_target("x86-64-v4");
  target.l2 = 1 << 20, target.l3 = 32 << 20;
  EXPECT_EQ(panels(matmul(1024, 1024, 1024), target), 1);
  EXPECT_EQ(panels(matmul(1024, 1024, 2048), target), 2);  // a strip of 512 KiB
  target.l3 = 16 << 20;
  EXPECT_EQ(panels(matmul(1024, 1024, 1024), target), 2);
}

// How often a program reads an element of a param, on average.
double reads_of_each(const Program& program, std::int64_t slot) {
  double reads = 0;
  std::vector<double> steps{1};  // of all loops around
  for (const NodeRef& ref : program.code) {
    Node n = ref.node();
    if (n.is(Op::Range)) steps.push_back(steps.back() * static_cast<double>(n.arg(0).hi()));
    if (n.is(Op::End)) steps.pop_back();
    if (n.is(Op::Load) && base_memory(n.arg(0)).is(Op::Param) && param_slot(base_memory(n.arg(0))) == slot)
      reads += steps.back() * n.dtype().lanes;
  }
  for (const ProgramParam& p : program.params)
    if (p.slot == slot) reads /= static_cast<double>(p.size);
  return reads;
}

// A panel that is not divided into blocks is copied before all loops, not in the first of them. Rows that the
// unit reads in place, again and again from L1, have no panel.
TEST(Heuristic, PanelsAreCopiedOnceForEachBlock) {
  Scope scope;
  Target target = named_target("x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8");
  target.l1 = 48 << 10, target.l2 = 2 << 20, target.l3 = 64 << 20, target.cores = 1;
  for (const std::int64_t size : {512, 1024, 2048})
    for (Node kernel : {small_matmul(size, size, size, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32),
                        small_matmul(size, size, size, dtypes::Int8, dtypes::Int8, dtypes::Int32)}) {
      const std::vector<Opt> opts = choose_options(kernel, target);
      Compile compile(target);
      compile.rules.disabled = {"read_in_place"};
      const Program program = lower_kernel(kernel, opts, compile, "k");
      for (const std::int64_t slot : {1, 2})
        EXPECT_LE(reads_of_each(program, slot), 4) << size << " " << to_string(opts);
    }
}

// A strip of the vector factor stays near while all rows of a block pass by, also where lanes are blocked.
TEST(Heuristic, RowsPassByOneStepOfLanes) {
  Scope scope;
  Target target = named_target("x86-64-v4");
  target.l2 = 256 << 10;
  Node kernel = matmul(2048, 2048, 2048);
  const std::vector<Opt> opts = choose_options(kernel, target);
  OptionState state(kernel, target);
  for (const Opt& opt : opts) state.apply(opt);
  const std::vector<Node> ranges = all_ranges(kernel);
  EXPECT_LT(state.loop_position(ranges[1]), state.last_loop_position(ranges[1])) << to_string(opts);
  EXPECT_LT(state.last_loop_position(ranges[1]), state.last_loop_position(ranges[0])) << to_string(opts);
  EXPECT_LT(state.loop_position(ranges[0]), state.last_loop_position(ranges[1])) << to_string(opts);
}

// The panel of the vector factor is copied a block of columns at a time: twice the second cache, no more.
TEST(Heuristic, PanelsOfAWideProductStayInTheirBlocks) {
  Scope scope;
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const Target target = named_target(name);
    for (Node kernel : {matmul(2048, 2048, 2048), matmul(64, 16384, 512)}) {
      const std::vector<Opt> opts = choose_options(kernel, target);
      for (Node n : toposort(apply_options(kernel, opts, target)))
        if (n.is(Op::Define)) {
          EXPECT_LE(memory_size(n) * n.dtype().bytes(), 2 * target.l2) << name << " " << to_string(opts);
        }
    }
  }
}

// Sums of a block of k are added to lines that lie in rows far apart: they are asked for before the block is
// summed, where the second cache does not hold them all.
TEST(Heuristic, LinesThatPartialSumsAreAddedToAreAskedForInTime) {
  Scope scope;
  const Target target = named_target("x86-64-v4");
  const auto prefetches = [&](std::int64_t n) {
    return count_ops(
        lower_kernel(matmul(n, n, 64), parse_opts("UPCAST(0, 6) UPCAST(1, 64) TILE(2, 32, 0)"), target, "k"),
        Op::Prefetch);
  };
  EXPECT_EQ(prefetches(2048), 24);
  EXPECT_EQ(prefetches(128), 0);
}

// 3 x 3 x 100000: lanes along k, where the columns of B are three apart and sorted by shuffles.
TEST(Heuristic, FewOutputsOfALongSumNeedNoPanelWhereLanesAreAFewApart) {
  Scope scope;
  EXPECT_EQ(to_string(choose_options(matmul(3, 3, 100000), named_target("x86-64-v3"))),
            "UPCAST(0, 3) UPCAST(0, 3) UNROLL(0, 8)");
  EXPECT_NE(to_string(choose_options(matmul(3, 5, 100000), named_target("x86-64-v4"))).find("STAGE"),
            std::string::npos);
}

TEST(Heuristic, ASmallMatrixProductPaysForNoPanel) {
  Scope scope;
  for (const char* name : {"x86-64-v3", "x86-64-v4"})
    for (const Opt& opt : choose_options(matmul(64, 64, 64), named_target(name)))
      EXPECT_NE(opt.op, OptOp::STAGE) << name;
}

}  // namespace
}  // namespace lathe::test
