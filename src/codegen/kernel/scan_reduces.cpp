#include "codegen/kernel/scan_reduces.h"

#include <cmath>

#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/conditions.h"
#include "ir/ranges.h"
#include "rules/linear.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

constexpr std::int64_t kMostGroups = 1 << 20;  // whose running values are memory of the kernel's own

void add_conjuncts(Node condition, SmallVector<Node, 8>& out) {
  for_each_conjunct(condition, [&](Node c) { out.push_back(c); });
}

// The value of `range` for which the equation holds, or null.
Node solved(Node equation, Node range) {
  if (!equation.is(Op::Eq) || !equation.arg(0).dtype().is_index()) return Node();
  Linear difference = linear(equation.arg(0));
  difference.add(equation.arg(1), -1);
  std::int64_t coefficient = 0;
  Linear rest;
  rest.constant = difference.constant;
  for (const Term& t : difference.terms)
    if (t.node == range)
      coefficient = t.coefficient;
    else
      rest.add_term(t.node, t.coefficient);
  if (coefficient != 1 && coefficient != -1) return Node();
  Node row = coefficient == -1 ? rest.build() : rest.build() * index_const(-1);
  return depends_on(row, range) ? Node() : row;
}

// Whether the condition says step <= output.
bool up_to(Node condition, Node step, Node output) {
  const bool negated = condition.is(Op::Not);
  if (negated) condition = condition.arg(0);
  if (!condition.is(Op::Less) || !condition.arg(0).dtype().is_index()) return false;
  // not (a < b): a - b >= 0.  a < b: b - a - 1 >= 0.
  Linear difference = linear(condition.arg(negated ? 0 : 1));
  difference.add(condition.arg(negated ? 1 : 0), -1);
  if (difference.constant != (negated ? 0 : 1) || difference.terms.size() != 2) return false;
  for (const Term& t : difference.terms)
    if (t.node == step ? t.coefficient != -1 : t.node == output ? t.coefficient != 1 : true) return false;
  return true;
}

}  // namespace

Conditional conditional_element(Node reduce) {
  Conditional out;
  const Node unit = element_const(reduce.dtype(), unit_of(reduce_op(reduce), reduce.dtype()));
  const bool zero = is_plus_zero(unit);
  auto is_unit = [&](Node n) { return n == unit || (zero && is_plus_zero(n)); };
  Node element = reduce.arg(0);
  DType cast_to = dtypes::Void;  // casts keep 0
  for (;;) {
    if (element.is(Op::Where) && is_unit(element.arg(2))) {
      add_conjuncts(element.arg(0), out.conditions);
      element = element.arg(1);
    } else if (element.is(Op::Where) && is_unit(element.arg(1))) {
      out.conditions.push_back(logical_not(element.arg(0)));
      element = element.arg(2);
    } else if (zero && element.is(Op::Cast) && element.arg(0).dtype().is_bool()) {
      add_conjuncts(element.arg(0), out.conditions);
      element = element_const(element.dtype(), {1, 1});
    } else if (zero && element.is(Op::Cast) && cast_to == dtypes::Void) {
      cast_to = element.dtype();
      element = element.arg(0);
    } else {
      break;
    }
  }
  if (zero && element.is(Op::Load) && element.arg_count() > 2) {
    add_conjuncts(element.arg(2), out.conditions);
    element = load(element.arg(0), element.arg(1), Node(), element.dtype().lanes);
  }
  out.value = cast_to == dtypes::Void ? element : cast(element, cast_to);
  return out;
}

std::optional<SelectedRow> selected_row(Node reduce, Node range) {
  const Conditional element = conditional_element(reduce);
  SelectedRow out;
  for (Node c : element.conditions) {
    Node row = out.row ? Node() : solved(c, range);
    if (row)
      out.row = row;
    else
      out.gate = both(out.gate, c);
  }
  if (!out.row || depends_on(element.value, range) || (out.gate && depends_on(out.gate, range)))
    return std::nullopt;
  out.value = element.value;
  return out;
}

std::optional<RunningStep> running_step(Node reduce, Node range, const RuleChanges& changes) {
  std::span<const Node> closed = closed_ranges(reduce);
  if (closed.size() != 1) return std::nullopt;
  const Conditional element = conditional_element(reduce);
  RunningStep out;
  out.step = closed[0];
  // Steps that are padding may be gone.
  if (Node steps = out.step.arg(0); steps != range.arg(0)) {
    if (!steps.is_const() || !range.arg(0).is_const() || steps.const_int() > range.arg(0).const_int())
      return std::nullopt;
    out.gate = less(out.step, steps);
  }
  bool found = false;
  NodeMap<Node> at_output;
  at_output.try_emplace(out.step, range);
  for (Node c : element.conditions) {
    if (!found && up_to(c, out.step, range)) {
      found = true;
    } else if (!out.group && c.is(Op::Eq) && c.arg(0).dtype().is_index() && depends_on(c, range)) {
      const bool first = depends_on(c.arg(0), out.step);
      Node group = c.arg(first ? 0 : 1), other = c.arg(first ? 1 : 0);
      // The step's own group, and the output's. Operands may be in another order with another range.
      if (depends_on(group, range) ||
          simplify(substitute_free(group, at_output), changes) != simplify(other, changes))
        return std::nullopt;
      out.group = group;
    } else {
      out.gate = both(out.gate, c);
    }
  }
  if (!found || depends_on(element.value, range) || (out.gate && depends_on(out.gate, range)))
    return std::nullopt;
  out.value = element.value;
  if (!out.group) return out;
  // How many groups there are: as many as the bounds or the conditions leave. Below 0 there is none.
  bool from_zero = out.group.lo() >= 0;
  if (from_zero && out.group.hi() < kMostGroups) out.groups = index_const(out.group.hi() + 1);
  for (Node c : element.conditions) {
    const bool negated = c.is(Op::Not);
    Node limit = negated ? c.arg(0) : c;
    if (!limit.is(Op::Less) || limit.arg(0) != out.group || !limit.arg(1).is_const()) continue;
    const std::int64_t than = limit.arg(1).const_int();
    if (negated)
      from_zero |= than >= 0;
    else if (than > 0 && than <= kMostGroups)
      out.groups = limit.arg(1);
  }
  return out.groups && from_zero ? std::optional(out) : std::nullopt;
}

}  // namespace lathe
