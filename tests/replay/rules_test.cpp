// Rules without a use are known (R90).
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "engine/compile_context.h"
#include "engine/engine.h"
#include "ir/text.h"
#include "replay/kernels_of.h"
#include "rewrite/rewriter.h"
#include "rules/order.h"
#include "schedule/kernel_rules.h"
#include "support/golden.h"

namespace lathe::test {
namespace {

constexpr std::uint64_t kOrdersChecked = 20;

// How often each rule was applied, by "table/rule", while it lives; and that it made smaller what its table
// declares.
class UseCount : public RewriteTrace {
 public:
  void applied(std::string_view table, std::string_view rule, Node before, Node after) override {
    const std::string name = std::string(table) + "/" + std::string(rule);
    // The first few of each: kernels are large.
    if (++count[name] > kOrdersChecked) return;
    if (table == "prepare_graph") return;  // one walk over a graph: what it makes is not looked at again
    if (table == "choose") return;         // options of a kernel, not another kernel (choices_test.cpp)
    const RuleOrder* order = find_rule_order(table);
    EXPECT_TRUE(order != nullptr && shrinks(*order, before, after)) << name << ":\n"
                                                                    << print_graph(before) << "becomes\n"
                                                                    << print_graph(after);
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
