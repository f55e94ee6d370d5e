#include "pipeline/blame.h"

#include <vector>

#include <fmt/format.h>

namespace lathe {

void Blame::begin_step(std::span<const Node> roots) {
  there_ = {};
  made_by_ = {};
  for (Node n : toposort(roots)) there_.try_emplace(n, 1);
}

void Blame::applied(std::string_view table, std::string_view rule, Node /*before*/, Node after) {
  // Each node is recorded once, so a step's rules are recorded in one walk over what they made.
  std::vector<Node> open{after};
  while (!open.empty()) {
    Node n = open.back();
    open.pop_back();
    if (there_.contains(n) || made_by_.contains(n)) continue;
    made_by_.try_emplace(n, fmt::format("{} of {}", rule, table));
    for (Node a : n.args()) open.push_back(a);
  }
}

std::string Blame::rule_of(Node guilty) const {
  if (!guilty) return "";
  if (const std::string* rule = made_by_.find(guilty)) return *rule;
  if (there_.contains(guilty)) return "";
  for (Node a : guilty.args())
    if (const std::string* rule = made_by_.find(a)) return *rule;
  return "";
}

}  // namespace lathe
