// Why rewriting ends: each table of rules names an order in which what a rule makes is smaller than what it
// takes. An order is a few numbers, compared one after the other, none of which can fall forever. Tests ask
// for it at every application of a rule; nothing else does.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/node.h"

namespace lathe {

struct RuleOrder {
  std::string_view table;
  std::string_view words;
  std::vector<double> (*measure)(Node node);
};

std::span<const RuleOrder> rule_orders();

// The order of a table, or null where it declares none.
const RuleOrder* find_rule_order(std::string_view table);

// Whether `after` is smaller than `before`.
bool shrinks(const RuleOrder& order, Node before, Node after);

}  // namespace lathe
