// `lathe fuzz`: programs of a seed are the same everywhere and right; one that a wrong rule spoils is
// noticed, and what it left behind is a file that an investigation takes.
#include <gtest/gtest.h>

#include "dev/fuzz_program.h"
#include "engine/compile_context.h"
#include "engine/engine.h"
#include "investigate/graph_investigation.h"
#include "investigate/kernel_investigation.h"
#include "investigate/said.h"
#include "ir/build.h"
#include "lathe/dev/fuzz.h"
#include "rewrite/rewriter.h"

namespace lathe::dev {
namespace {

using investigate::test::Folder;
using investigate::test::said;

TEST(Fuzz, ProgramsAreRightOnEveryListOfOptions) {
  const Folder folder;
  FuzzSeed all;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const FuzzSeed one = fuzz_seed(seed, 1, folder.path);
    ASSERT_EQ(one.kind, "") << "lathe fuzz --count 1 --seed " << seed << ": " << one.text << " " << one.path
                            << "\n"
                            << fuzz_program_text(seed);
    all.graphs += one.graphs, all.kernels += one.kernels;
    all.lists += one.lists, all.symbolic += one.symbolic;
  }
  EXPECT_GT(all.graphs, 20);
  EXPECT_GT(all.kernels, 40);
  EXPECT_EQ(all.lists, all.kernels);
  EXPECT_GT(all.symbolic, 3);
}

TEST(Fuzz, AProgramIsTheSameOnEveryDevice) {
  int exact = 0, symbolic = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const FuzzProgram here = make_fuzz_program(seed, "CPU"), there = make_fuzz_program(seed, "REF");
    EXPECT_EQ(here.text, there.text);
    EXPECT_FALSE(here.text.empty());
    exact += here.exact, symbolic += here.symbolic;
  }
  EXPECT_GT(exact, 5);
  EXPECT_GT(symbolic, 5);
}

// Maxima of floats are minima.
Node turned(Node node, const Bindings&, Rewriter&) {
  return node.dtype() == dtypes::Float32 ? apply(Op::Min, node.arg(0), node.arg(1)) : Node();
}
constexpr Rule kTurned[] = {{"turned-max", node_of(Op::Max), by(turned)}};

TEST(Fuzz, AWrongRuleIsNoticedAndNamed) {
  const Scope scope;
  const Folder folder;
  const RuleSet set("planted", {{"planted", kTurned, [](Node) { return true; }}});
  const engine::ExperimentScope experiment({.planted = &set});
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const FuzzSeed one = fuzz_seed(seed, 0, folder.path);
    if (one.path.empty()) continue;
    investigate::LocalLaboratory laboratory;
    InvestigationLimits limits;
    limits.folder = folder.path;
    const Finding finding =
        one.kind == "graph"
            ? investigate::investigate(investigate::read_graph(one.path), laboratory, limits, {})
            : investigate::investigate(investigate::read_subject(one.path), laboratory, limits, {});
    EXPECT_EQ(finding.kind, "rule") << said(finding);
    EXPECT_EQ(finding.cause, "turned-max") << said(finding);
    return;
  }
  FAIL() << "nothing was noticed";
}

}  // namespace
}  // namespace lathe::dev
