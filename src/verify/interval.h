// Interval arithmetic over index expressions under assumptions: a gate that narrows a node narrows every
// expression that contains the node.
#pragma once

#include "ir/bounds.h"
#include "ir/node.h"
#include "ir/walk.h"

namespace lathe::verify {

class Assumptions {
 public:
  // Takes in a condition that holds: comparisons, joined by And, below Not.
  void assume(Node condition);

  // False where the assumptions contradict each other: then nothing under them ever runs.
  bool possible() const { return possible_; }

  // The values an integer expression can have.
  Interval of(Node expression);

  // The same of an index that is a sum, in which sums that the assumptions speak of are put together again:
  // under 0 <= 2*i + k - 1 < 56, 112*i + 56*k - 56 is 56 times something below 56.
  Interval of_sum(Node index);

 private:
  void assume_one(Node condition, bool holds);
  void narrow(Node node, Interval to);
  Interval compute(Node node) const;
  Interval known(Node node) const;

  NodeMap<Interval> narrowed_, computed_;
  bool possible_ = true;
};

}  // namespace lathe::verify
