// Failures that were investigated elsewhere without any of the causes being tested, built again: each has to
// be traced to its cause by experiment. (The name that a test program lacks is one of the seeds of
// tests/investigations; a wait that is over too early needs a build with planted faults: lathe faults.)
#include <gtest/gtest.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/child_process.h"
#include "base/env.h"
#include "codegen/codegen.h"
#include "dev/saved_capture.h"
#include "engine/compile_context.h"
#include "engine/engine.h"
#include "investigate/kernel_investigation.h"
#include "investigate/program_investigation.h"
#include "investigate/said.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "lathe/dev/investigate_kernel.h"
#include "lathe/jit.h"
#include "lathe/tensor.h"

namespace lathe::investigate {
namespace {

using dev::Verdict;

// out[i] = sum over j of Y[j] * (index[i] == (sum over k of (k < j + 1)) - 1): the gather Y[index[i]].
Subject nest(std::int64_t rows, std::int64_t columns) {
  const Node i = range(index_const(rows), 0, RangeKind::Global),
             j = range(index_const(columns), 1, RangeKind::Reduce),
             k = range(index_const(columns), 2, RangeKind::Reduce);
  const Node one = int_const(dtypes::Int32, 1), zero = int_const(dtypes::Int32, 0);
  const Node count = reduce_ranges(Op::Add, where(less(k, j + index_const(1)), one, zero), {&k, 1});
  const Node hit = equal(load(param(dtypes::Int32, 2, rows), i), count + int_const(dtypes::Int32, -1));
  const Node element = where(hit, load(param(dtypes::UInt8, 1, columns), j), int_const(dtypes::UInt8, 0));
  const Node sum = reduce_ranges(Op::Add, element, {&j, 1});
  const Node effect = end(store(param(dtypes::UInt8, 0, rows), i, sum), {&i, 1});
  Subject subject;
  subject.name = "nest";
  subject.device = "NULL:sm_90a";  // a program for groups of threads, on REF
  subject.options = parse_opts("GROUPTOP(1, 16)");
  subject.kernel = sink({&effect, 1});
  return subject;
}

// The accumulator of a loop inside of a loop is set once, before both, and not at each step of the outer one.
struct WrongScope : StepSink {
  void kernel(const StepInfo& from, Node& kernel) override {
    if (std::string_view(from.name) != "lower_reduce") return;
    NodeMap<Node> to;
    for (Node n : toposort(kernel)) {
      const bool sets =
          n.is(Op::Store) && n.arg(0).is(Op::After) && n.arg(0).arg(0).is(Op::Define) && n.arg(2).is_const();
      if (!sets) continue;
      to[n] = store(n.arg(0).arg(0), n.arg(1), n.arg(2));
      ++moved;
    }
    kernel = substitute(kernel, to);
  }
  int moved = 0;
};

TEST(Recorded, TheNestWithAnAccumulatorInTheWrongScope) {
  const Scope scope;
  const test::Folder folder;
  WrongScope wrong;
  const engine::ExperimentScope experiment({.sink = &wrong});
  LocalLaboratory laboratory;
  dev::InvestigationLimits limits;
  limits.folder = folder.path;
  const dev::Finding finding = investigate(nest(16, 250), laboratory, limits, {});
  EXPECT_GT(wrong.moved, 0);
  EXPECT_EQ(finding.kind, "step") << test::said(finding);
  EXPECT_EQ(finding.cause, "lower_reduce") << test::said(finding);
  EXPECT_NE(finding.repro, "");
  EXPECT_LE(finding.repro_nodes, 10) << test::said(finding);
  EXPECT_NE(finding.before, finding.after);
  EXPECT_FALSE(finding.difference.empty());
  EXPECT_EQ(finding.hypotheses.front().verdict, Verdict::Confirmed);
}

TEST(Recorded, TheNestAsItIsAccusesNobody) {
  const Scope scope;
  const test::Folder folder;
  LocalLaboratory laboratory;
  dev::InvestigationLimits limits;
  limits.folder = folder.path;
  const dev::Finding finding = investigate(nest(16, 250), laboratory, limits, {});
  EXPECT_EQ(finding.kind, "") << test::said(finding);
}

// ---- programs, run as commands: each fails where it has something to fail of

TEST(Program, DISABLED_MeetsOnDifferentDevices) {
  const Tensor x = Tensor::ones({4, 4}).to("CPU:1").contiguous().realize(),
               y = Tensor::ones({4, 4}).realize();
  EXPECT_EQ((x + y).sum().item<float>(), 32);
}

// Ones beside 2^27 are lost where each is added alone; their sum by itself is not.
TEST(Program, DISABLED_LosesSmallNumbers) {
  const Tensor all =
      Tensor::cat({Tensor::full({1}, 134217728.0), Tensor::ones({4096})}, 0).contiguous().realize();
  EXPECT_EQ((all.sum() - 134217728.0).item<float>(), 4096);
}

TEST(Program, DISABLED_FailsWhateverLatheDoes) { EXPECT_EQ(Tensor::ones({4}).sum().item<float>(), 5); }

TEST(Program, DISABLED_DividesByNothing) {
  const Tensor x = Tensor({1.F, 2.F, 0.F}).contiguous().realize();
  const Tensor weights = ((x - x).contiguous() / (x - x).contiguous()).contiguous().realize();
  EXPECT_EQ((weights + 1).sum().item<float>(), 3);
}

dev::Finding of_program(const char* name) {
  LocalLaboratory laboratory;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  return investigate_command(
      {self, std::string("--gtest_filter=Program.DISABLED_") + name, "--gtest_also_run_disabled_tests"},
      laboratory, {}, {});
}

TEST(Recorded, BuffersOnDifferentDevices) {
  const dev::Finding finding = of_program("MeetsOnDifferentDevices");
  EXPECT_EQ(finding.kind, "devices") << test::said(finding);
  EXPECT_EQ(finding.way_out, "LATHE_ONE_DEVICE=1");
  EXPECT_TRUE(finding.way_out_verified);
}

TEST(Recorded, WhatOnlyRoundsIsNotAKernelsFault) {
  const dev::Finding finding = of_program("LosesSmallNumbers");
  EXPECT_EQ(finding.kind, "numerics") << test::said(finding);
  EXPECT_EQ(finding.way_out, "LATHE_WIDE=1");
  EXPECT_TRUE(finding.way_out_verified);
}

TEST(Recorded, WhereNaNComesFromIsSaid) {
  const dev::Finding finding = of_program("DividesByNothing");
  EXPECT_EQ(finding.kind, "") << test::said(finding);
  EXPECT_NE(test::said(finding).find("NaN or infinity comes first from kernel"), std::string::npos)
      << test::said(finding);
}

TEST(Recorded, AProgramThatIsWrongItselfAccusesNobody) {
  const dev::Finding finding = of_program("FailsWhateverLatheDoes");
  EXPECT_EQ(finding.kind, "") << test::said(finding);
  EXPECT_NE(finding.summary.find("why is not known"), std::string::npos) << finding.summary;
}

// ---- a saved capture

TEST(Capture, OneWhoseKernelsAreNotThoseOfItsGraphsIsNoticed) {
  const test::Folder folder;
  const std::string right = folder.path + "/right.capture", stale = folder.path + "/stale.capture";
  Tensor state = Tensor::zeros({8}).contiguous().realize();
  auto step = jit([&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    state.assign(state + in[0]);
    return {(in[0] * 1536 + in[1]).contiguous(), state.sum()};
  });
  for (int i = 0; i < 3; ++i)
    step({Tensor::full({8}, 0.5 + i).contiguous().realize(), Tensor::ones({8}).contiguous().realize()});
  step.save(right);
  EXPECT_TRUE(dev::is_capture_file(right));
  EXPECT_EQ(dev::differs_from_reference(right), "");
  // The graph of a kernel is another one than the machine code beside it was made of.
  std::string bytes = *read_file(right);
  const std::size_t at = bytes.find("Const.f32 1536 ");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 15, "Const.f32 1024 ");
  write_file_atomic(stale, bytes);
  EXPECT_NE(dev::differs_from_reference(stale), "");
  engine::drop_caches();
  const FlagScope anew(Flag::Capture, "0");
  EXPECT_EQ(dev::differs_from_reference(stale), "");
}

TEST(Capture, ASavedOneIsInvestigatedByReplays) {
  if (find_program("lathe-worker").empty()) GTEST_SKIP() << "lathe-worker is not built";
  const test::Folder folder;
  auto step = jit([](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0].flip({0}) * 3}; });
  for (int i = 0; i < 3; ++i) step({Tensor::full({8}, 0.5 + i).contiguous().realize()});
  step.save(folder.path + "/saved.capture");
  const dev::Finding fine = dev::investigate_kernel(folder.path + "/saved.capture");
  EXPECT_EQ(fine.kind, "") << test::said(fine);
  EXPECT_EQ(fine.summary, "the command does not fail here");
  write_file_atomic(folder.path + "/cut.capture", read_file(folder.path + "/saved.capture")->substr(0, 200));
  const dev::Finding cut = dev::investigate_kernel(folder.path + "/cut.capture");
  EXPECT_EQ(cut.kind, "") << test::said(cut);
  EXPECT_NE(cut.summary.find("truncated"), std::string::npos) << cut.summary;
}

// Commands that stand for programs: they fail unless the one thing is made harmless.
TEST(Commands, WhatIsAroundKernelsIsNamed) {
  struct Row {
    const char *script, *kind, *way_out;
  };
  const Row rows[] = {
      {"test \"$LATHE_REUSE\" = 0", "memory plan", "LATHE_REUSE=0"},
      {"test \"$LATHE_SERIAL\" = 1", "wait", "LATHE_SERIAL=1"},
      {"test \"$LATHE_CAPTURE\" = 0", "capture", "LATHE_CAPTURE=0"},
      {"test \"$LATHE_WIDE\" = 1", "numerics", "LATHE_WIDE=1"},
      // It fails only where work begins late.
      {"test -z \"$LATHE_DELAY\" || test \"$LATHE_SERIAL\" = 1", "wait", "LATHE_SERIAL=1"},
  };
  for (const Row& row : rows) {
    LocalLaboratory laboratory;
    const dev::Finding finding = investigate_command({"sh", "-c", row.script}, laboratory, {}, {});
    EXPECT_EQ(finding.kind, row.kind) << row.script << "\n" << test::said(finding);
    EXPECT_EQ(finding.way_out, row.way_out);
    EXPECT_TRUE(finding.way_out_verified);
  }
}

TEST(Commands, OneThatHangsOrCrashesIsGivenUpAndTriedAgain) {
  LocalLaboratory laboratory;
  dev::InvestigationLimits limits;
  limits.run_seconds = 0.5;
  const dev::Finding hung =
      investigate_command({"sh", "-c", "test \"$LATHE_SERIAL\" = 1 || sleep 60"}, laboratory, limits, {});
  EXPECT_EQ(hung.kind, "wait") << test::said(hung);
  const dev::Finding crashed =
      investigate_command({"sh", "-c", "test \"$LATHE_REUSE\" = 0 || kill -SEGV $$"}, laboratory, limits, {});
  EXPECT_EQ(crashed.kind, "memory plan") << test::said(crashed);
}

}  // namespace
}  // namespace lathe::investigate
