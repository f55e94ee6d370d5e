// Heuristic rules without a use are known (R90).
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "codegen/choose/lay_out_factors.h"
#include "codegen/choose/split_sum.h"
#include "codegen/codegen.h"
#include "replay/kernels_of.h"
#include "support/golden.h"
#include "target/target.h"

namespace lathe::test {
namespace {

// Which rules had something to propose.
struct Taken : RewriteTrace {
  void applied(std::string_view table, std::string_view rule, Node /*before*/, Node /*after*/) override {
    if (table == "choose") names.emplace(rule);
  }
  std::set<std::string> names;
};

// What each is chosen for, and whose schedule it takes.
struct Chip {
  const char *name, *schedule;
};
constexpr Chip kChips[] = {
    {"x86-64-v3", "x86-64-v3"},
    {"x86-64-v4", "x86-64-v4"},
    {"x86-64-v4+avx512bf16+avx512vnni", "x86-64-v4"},
    {"x86-64-v4+amx-tile+amx-bf16+amx-int8", "x86-64-v4"},
    {"sm_90a", "sm_90a"},
};

TEST(Choices, RulesThatNoNetAndNoOpTakesAreListed) {
  std::vector<ReplayGraph> graphs = replay_graphs();
  for (const DataType dtype : {dtypes::bfloat16, dtypes::int8})
    for (ReplayGraph& graph : op_graphs(dtype)) graphs.push_back(std::move(graph));
  Taken taken;
  for (const ReplayGraph& graph : graphs) {
    const std::vector<Tensor> wanted = graph.build();
    for (const Chip& chip : kChips) {
      const Target target = named_target(chip.name);
      Compile compile(target);
      compile.checks = Checks::None;
      compile.rules.trace = &taken;
      for (const NodeRef& kernel : scheduled_kernels(wanted, chip.schedule)) {
        choose_options(kernel, compile);
        // These two stand before a kernel, with kernels of their own.
        if (lay_out_factors(kernel, compile)) taken.names.insert("laid-out-factors");
        if (split_sum(kernel, compile)) taken.names.insert("split-products");
      }
    }
  }
  // What is listed is there for other kernels: bf16 and quantized products, attention, turned copies.
  // Heuristic.EachRuleChangesSomething (tests/codegen) wants one for each; a rule without either is deleted.
  std::string text = "# Rules of the heuristic that neither the nets nor the op suite take, on any target.\n";
  for (const HeuristicRule& rule : heuristic_rules())
    if (!taken.names.contains(rule.name)) text += std::string(rule.name) + "\n";
  expect_golden("tests/replay/unused_choices.txt", text);
}

}  // namespace
}  // namespace lathe::test
