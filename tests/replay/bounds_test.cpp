// Every access of every kernel of the op suite and of the nets stays inside its memory, as scheduled and with
// the options of each target: proved by intervals, by the solver, or, where the index is data, guarded: by a
// check that the op made (gather, embedding, ...) or by one that nothing else explains.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "codegen/codegen.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "replay/kernels_of.h"
#include "support/golden.h"
#include "verify/bounds.h"
#include "verify/guard.h"

namespace lathe::test {
namespace {

using verify::AccessProof;
using verify::BoundsReport;
using verify::Proof;

bool has_below(Node index, Op op) {
  const std::vector<Node> nodes = toposort(index);
  return std::any_of(nodes.begin(), nodes.end(), [&](Node n) { return n.is(op); });
}

struct Counts {
  std::size_t interval = 0, solver = 0, checked = 0, guarded = 0;
  void add(const BoundsReport& report) {
    for (const AccessProof& access : report.accesses) {
      if (access.proof == Proof::Unproved)
        ++guarded;
      else if (has_below(access.access.arg(1), Op::Check))
        ++checked;
      else
        ++(access.proof == Proof::Interval ? interval : solver);
    }
  }
  std::string text() const {
    return fmt::format("{} by interval, {} by solver, {} checked by their op, {} guarded", interval, solver,
                       checked, guarded);
  }
};

// Only what loaded data decides is checked when it runs.
void expect_only_data_is_checked(const BoundsReport& report, const std::string& where) {
  for (const AccessProof& access : report.accesses) {
    const Node index = access.access.arg(1);
    EXPECT_NE(access.proof, Proof::Refuted) << where << ": " << access.counterexample;
    const bool at_run_time = access.proof == Proof::Unproved || has_below(index, Op::Check);
    EXPECT_TRUE(!at_run_time || has_below(index, Op::Load)) << where << ":\n" << print_graph(access.access);
  }
}

TEST(Bounds, OfTheOpSuiteAndTheNetsAreProvedAsScheduledAndWithOptions) {
  if (!verify::has_solver()) GTEST_SKIP() << "this build has no solver";
  std::string guarded;
  std::map<std::string, Counts> scheduled, optioned;
  for (const ReplayGraph& graph : replay_graphs()) {
    const bool is_op = graph.name.starts_with("op_");
    const std::string group = is_op ? "op suite" : graph.name;
    const Scope scope;
    Counts of_graph;
    for (const NodeRef& kernel : scheduled_kernels(graph.build(), "x86-64-v3")) {
      const Scope inner;
      const BoundsReport report = verify::prove_bounds(kernel);
      expect_only_data_is_checked(report, graph.name);
      of_graph.add(report);
      scheduled[group].add(report);
      const Node safe = verify::guard_unproved(kernel, report);
      for (const char* name : kReplayTargets) {
        const Target target = named_target(name);
        const BoundsReport after =
            verify::prove_bounds(apply_options(safe, choose_options(safe, target), target));
        expect_only_data_is_checked(after, graph.name + " for " + name);
        optioned[group].add(after);
      }
    }
    if (of_graph.checked + of_graph.guarded > 0)
      guarded += fmt::format("{}: {}\n", graph.name, of_graph.text());
  }
  std::string text = "# How accesses are shown to stay inside their memory. As scheduled:\n";
  for (const auto& [group, counts] : scheduled) text += fmt::format("{}: {}\n", group, counts.text());
  text += "# With the options of three targets:\n";
  for (const auto& [group, counts] : optioned) text += fmt::format("{}: {}\n", group, counts.text());
  text += "# Graphs with accesses that are checked when they run:\n" + guarded;
  expect_golden("tests/replay/bounds.txt", text);
}

}  // namespace
}  // namespace lathe::test
