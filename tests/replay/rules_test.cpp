// Rules without a use are known (R90).
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "engine/compile_context.h"
#include "engine/engine.h"
#include "replay/kernels_of.h"
#include "rewrite/rewriter.h"
#include "schedule/kernel_rules.h"
#include "support/golden.h"

namespace lathe::test {
namespace {

// How often each rule was applied, by "table/rule", while it lives.
class UseCount : public RewriteTrace {
 public:
  void applied(std::string_view table, std::string_view rule, Node, Node) override {
    ++count[std::string(table) + "/" + std::string(rule)];
  }
  std::map<std::string, std::uint64_t> count;

 private:
  const engine::ExperimentScope scope_{{.trace = this}};
};

// A rule that is in the list is there for what people write, such as x * 1; a new one should not be.
TEST(Rules, ThoseThatNoNetAndNoOpUsesAreListed) {
  engine::drop_caches();
  std::string text =
      "# Rules that neither the nets nor the op suite apply, on any target. See CONTRIBUTING.md.\n";
  {
    UseCount uses;
    for (const ReplayGraph& graph : replay_graphs()) {
      const std::vector<Tensor> wanted = graph.build();
      for (const char* target : kReplayTargets) kernels_of(wanted, target);
    }
    for (const RuleTable& table : all_tables())
      for (const Rule& rule : table.rules) {
        const std::string name = std::string(table.name) + "/" + std::string(rule.name);
        if (!uses.count.contains(name)) text += name + "\n";
      }
  }
  expect_golden("tests/replay/unused_rules.txt", text);
}

}  // namespace
}  // namespace lathe::test
