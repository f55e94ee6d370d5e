// Recognizes the reduces that a Scatter and a Scan become in a kernel. A condition says which steps count for
// an output, so one thread can run the steps in order and update only the outputs that each step changes.
//
//   Reduce(op, where(v == e(k), x(k), unit), k)    a Scatter: step k changes only output row e(k)
//   Reduce(op, where(k <= i, x(k), unit), k)       a Scan: output k is output k - 1 combined with step k
#pragma once

#include <optional>

#include "base/small_vector.h"
#include "ir/node.h"
#include "rewrite/rewriter.h"

namespace lathe {

// The element of a reduce as where(all conditions, value, unit). A gated load and a counted condition have
// this form, too.
struct Conditional {
  SmallVector<Node, 8> conditions;
  Node value;
};
Conditional conditional_element(Node reduce);

// A Scatter: the output row that each step of the reduce changes.
struct SelectedRow {
  Node row;    // index of the row along the range; may be out of bounds
  Node gate;   // a further condition, or null
  Node value;  // the value to combine the row with; does not depend on the range
};
// Matches a reduce whose steps each change a single value of the output range `range`; nothing if it is not
// one.
std::optional<SelectedRow> selected_row(Node reduce, Node range);

// A Scan: the value with which each step extends the output before it.
struct RunningStep {
  Node step;    // the reduce range
  Node group;   // index of the running value that the step belongs to; null if there is only one
  Node groups;  // the number of running values; other indices are out of bounds
  Node gate;    // a further condition, or null
  Node value;   // the value to combine with; does not depend on the output range
};
// Matches a reduce that is a scan along the output range `range`; nothing if it is not one.
std::optional<RunningStep> running_step(Node reduce, Node range, const RuleChanges& changes);

}  // namespace lathe
