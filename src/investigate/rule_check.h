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
  const std::vector<RuleUse>& uses() const { return uses_; }
  void clear() { uses_.clear(); }

 private:
  std::vector<RuleUse> uses_;
};

// An example of leaves where two scalar graphs differ, in words; empty where none was found, or nothing can
// be said. Floats may differ by rounding.
std::string difference(Node before, Node after);

}  // namespace lathe::investigate
