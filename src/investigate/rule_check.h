// Whether rules keep values: each application of one is evaluated, left side and right side, at values of
// their leaves that are within bounds. What has no value of its own, a load or a range, is a leaf.
#pragma once

#include <string_view>
#include <vector>

#include "investigate/experiment.h"
#include "ir/node.h"

namespace lathe::investigate {

class RuleCheck {
 public:
  void add(std::string_view table, std::string_view rule, Node before, Node after);
  // Those that change values first, by their first application that does: what a rule builds is simplified
  // while it is built, so a wrong rule makes others look wrong after it.
  std::vector<RuleUse> uses() const;
  void clear() { uses_.clear(), wrong_.clear(); }

 private:
  std::vector<RuleUse> uses_;
  std::vector<std::size_t> wrong_;  // places in uses_, in that order
};

// An example of leaves where two scalar graphs differ, in words; empty where none was found, or nothing can
// be said. Floats may differ by rounding.
std::string difference(Node before, Node after);

}  // namespace lathe::investigate
