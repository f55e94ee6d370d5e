// Reduces that name the one step, or the steps, that count for an output: what a Scatter and a Scan are as
// kernels. Where one thread walks the steps in order, each step does only what it changes.
//
//   Reduce(op, where(v == e(k), x(k), unit), k)    a Scatter: step k changes the row e(k) and no other
//   Reduce(op, where(k <= i, x(k), unit), k)       a Scan: step k is what output k has more than output k - 1
#pragma once

#include <optional>

#include "base/small_vector.h"
#include "ir/node.h"
#include "rewrite/rewriter.h"

namespace lathe {

// The element of a reduce as where(all conditions, value, unit): a gated load is one, and so is a condition
// that is counted.
struct Conditional {
  SmallVector<Node, 8> conditions;
  Node value;
};
Conditional conditional_element(Node reduce);

// The row that each step of the reduce changes.
struct SelectedRow {
  Node row;    // which value of the range, an index; it may be outside
  Node gate;   // what else must hold, or null
  Node value;  // what the row is combined with; it does not depend on the range
};
// Where the reduce does nothing for other values of `range`, which is one of its output ranges.
std::optional<SelectedRow> selected_row(Node reduce, Node range);

// What each step of the reduce adds to the output of its own number, beside what the output before it had.
struct RunningStep {
  Node step;    // the reduce range
  Node group;   // which of several running values, an index; null where there is one
  Node groups;  // how many there are; others are outside
  Node gate;    // what else must hold, or null
  Node value;   // what it is combined with; it does not depend on the output range
};
std::optional<RunningStep> running_step(Node reduce, Node range, const RuleChanges& changes);

}  // namespace lathe
