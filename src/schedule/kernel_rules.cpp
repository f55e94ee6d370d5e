#include "schedule/kernel_rules.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/conditions.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

bool is_kernel_reduce(Node n) { return n.is(Op::Reduce) && n.attr().kind == Attr::Kind::Int; }

Node zero_like(Node n) { return zero_of(n.dtype()); }

// A load, or one that is cast: 0 stays 0 in every dtype.
Node load_below(Node x) {
  while (x.is(Op::Cast)) x = x.arg(0);
  return x.is(Op::Load) && x.dtype().lanes == 1 ? x : Node();
}

// The same casts over another load.
Node with_load(Node x, Node load) {
  if (!x.is(Op::Cast)) return load;
  return cast(with_load(x.arg(0), load), x.dtype());
}

// where(c, load(m, i, g), 0) == load(m, i, g and c): a gated load gives 0.
Node gate_into_load(Node node, const Bindings&, Rewriter& rewriter) {
  Node c = node.arg(0), x = load_below(node.arg(1));
  if (!x || !is_plus_zero(node.arg(2))) return Node();
  Node gate = x.arg_count() > 2 ? rewriter.apply(Op::And, x.arg(2), c) : c;
  return with_load(node.arg(1), load(x.arg(0), x.arg(1), gate));
}

bool is_gated_by(Node x, Node gate) {
  Node read = load_below(x);
  return read && read.arg_count() > 2 && read.arg(2) == gate;
}

// The factor with its load without a gate, where its index is inside the memory anyway; else the factor
// itself.
Node without_gate(Node x) {
  Node read = load_below(x), memory = base_memory(read.arg(0)), index = read.arg(1);
  if (!memory.is(Op::Param) && !memory.is(Op::Buffer)) return x;
  return index.lo() >= 0 && index.hi() < memory.ints()[1] ? with_load(x, load(read.arg(0), index)) : x;
}

// sum of where(c, a * b, 0) == sum of a * b, where both are loads gated by c, cast or not: one 0 is enough,
// so the factor that can do without its gate loses it and no longer depends on what the gate depends on.
// Gives up the 0 where that factor is infinite or NaN, so only where sums are over padding, as in the
// gradients of convolutions: the other factor is outside of its memory there, the gate depends on some
// ranges of the sum and not on all, and on ranges that the ungated factor's index does not depend on, so that
// other outputs read it unmasked. A mask written by a program may hide such values and is kept.
Node gate_one_factor(Node node, const Bindings&, Rewriter& rewriter) {
  if (!is_kernel_reduce(node) || reduce_op(node) != Op::Add) return Node();
  Node gated = node.arg(0), c = gated.is(Op::Where) ? gated.arg(0) : Node();
  if (!c || !is_plus_zero(gated.arg(2)) || !gated.arg(1).is(Op::Mul) || gated.dtype().lanes != 1)
    return Node();
  std::span<const Node> summed = node.args().subspan(1);
  const auto in_gate = std::count_if(summed.begin(), summed.end(), [&](Node r) { return depends_on(c, r); });
  if (in_gate == 0 || static_cast<std::size_t>(in_gate) == summed.size()) return Node();
  Node a = gated.arg(1).arg(0), b = gated.arg(1).arg(1);
  if (!is_gated_by(a, c) || !is_gated_by(b, c)) return Node();
  Node free_a = without_gate(a), free_b = without_gate(b);
  if ((free_a == a) == (free_b == b)) return Node();
  Node index = load_below(free_a != a ? a : b).arg(1);
  std::span<const Node> of_gate = ranges_of(c);
  if (std::all_of(of_gate.begin(), of_gate.end(), [&](Node r) { return depends_on(index, r); }))
    return Node();
  return rewriter.simplify(reduce_ranges(Op::Add, rewriter.apply(Op::Mul, free_a, free_b), summed));
}

// A range the element does not depend on: a sum becomes a product, the idempotent ops lose the range.
Node drop_unused_range(Node node, const Bindings&, Rewriter& rewriter) {
  if (!is_kernel_reduce(node)) return Node();
  Op op = reduce_op(node);
  if (op == Op::Mul) return Node();
  Node element = node.arg(0);
  SmallVector<Node, 8> kept;
  Node times;
  bool ragged = false;
  for (Node r : node.args().subspan(1)) {
    bool used = depends_on(element, r);
    for (Node other : node.args().subspan(1)) used |= other != r && depends_on(other.arg(0), r);
    bool may_be_empty = r.arg(0).lo() < 1 && op != Op::Add;
    if (used || may_be_empty)
      kept.push_back(r);
    else
      times = times ? times * r.arg(0) : r.arg(0), ragged |= !ranges_of(r.arg(0)).empty();
  }
  if (!times || ragged) return Node();
  Node rest = reduce_ranges(op, element, kept);
  if (is_kernel_reduce(rest)) rest = rewriter.simplify(rest);
  if (op != Op::Add || node.dtype().is_bool()) return rest;
  return rewriter.apply(Op::Mul, rest, cast(times, node.dtype()));
}

// sum over a of (sum over b of e) == sum over a, b of e; also under a gate that gives 0.
Node join_sums(Node node, const Bindings&, Rewriter& rewriter) {
  if (!is_kernel_reduce(node) || reduce_op(node) != Op::Add) return Node();
  Node inner = node.arg(0), gate;
  if (inner.is(Op::Where) && is_plus_zero(inner.arg(2))) {
    gate = inner.arg(0);
    inner = inner.arg(1);
  }
  if (!is_kernel_reduce(inner) || reduce_op(inner) != Op::Add || inner.dtype() != node.dtype()) return Node();
  SmallVector<Node, 8> ranges(node.args().begin() + 1, node.args().end());
  ranges.append(inner.args().begin() + 1, inner.args().end());
  Node element = inner.arg(0);
  if (gate) element = rewriter.apply(Op::Where, gate, element, zero_like(element));
  return rewriter.simplify(reduce_ranges(Op::Add, element, ranges));
}

// Conditions joined by And.
void conjuncts(Node c, SmallVector<Node, 8>& out) {
  SmallVector<Node, 8> stack;
  stack.push_back(c);
  while (!stack.empty()) {
    Node top = stack.back();
    stack.pop_back();
    if (top.is(Op::And) && top.dtype().is_bool()) {
      stack.push_back(top.arg(1));
      stack.push_back(top.arg(0));
    } else {
      out.push_back(top);
    }
  }
}

// If `eq` says range r equals a value that does not depend on r, that value as an index; else null.
Node pinned_value(Node eq, Node r) {
  if (!eq.is(Op::Eq)) return Node();
  for (int side = 0; side < 2; ++side) {
    Node with = eq.arg(static_cast<std::size_t>(side)), other = eq.arg(static_cast<std::size_t>(1 - side));
    if (depends_on(other, r) || !other.dtype().is_int()) continue;
    Node offset = index_const(0);
    if (with.is(Op::Cast) && with.dtype().is_int()) {
      // The cast keeps the value only where the index fits the dtype.
      if (with.arg(0).dtype() != dtypes::Index || with.arg(0).lo() < with.dtype().min_int() ||
          with.arg(0).hi() > with.dtype().max_int())
        continue;
      with = with.arg(0);
    }
    if (with.dtype() != dtypes::Index) continue;
    if (with.is(Op::Add) && with.arg(1).is_const()) {
      offset = with.arg(1);
      with = with.arg(0);
    }
    if (with == r) return cast(other, dtypes::Index) - offset;
  }
  return Node();
}

// sum over r of where(r == v and rest, body(r), 0) == where(0 <= v < n and rest(v), body(v), 0):
// one-hot, gather and their kin read one element instead of testing n.
Node collapse_one_hot(Node node, const Bindings&, Rewriter& rewriter) {
  if (!is_kernel_reduce(node) || reduce_op(node) != Op::Add) return Node();
  Node element = node.arg(0);
  // A gated load is where(gate, load, 0).
  Node condition, body;
  if (element.is(Op::Where) && is_plus_zero(element.arg(2))) {
    condition = element.arg(0);
    body = element.arg(1);
  } else if (element.is(Op::Load) && element.arg_count() > 2) {
    condition = element.arg(2);
    body = load(element.arg(0), element.arg(1));
  } else if (element.is(Op::Cast) && element.arg(0).dtype().is_bool()) {
    condition = element.arg(0);
    body = element_const(element.dtype(), {1, 1});
  } else {
    return Node();
  }
  SmallVector<Node, 8> parts;
  conjuncts(condition, parts);
  for (Node r : node.args().subspan(1)) {
    if (!r.arg(0).is_const()) continue;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Node v = pinned_value(parts[i], r);
      if (!v) continue;
      v = rewriter.rewrite(v);
      Node last = index_const(r.arg(0).int_attr() - 1);
      Node clamped = rewriter.rewrite(min(max(v, index_const(0)), last));
      Node all = rewriter.rewrite(logical_and(logical_not(less(v, index_const(0))), less(v, r.arg(0))));
      NodeMap<Node> to;
      to[r] = clamped;
      for (std::size_t j = 0; j < parts.size(); ++j)
        if (j != i) all = rewriter.rewrite(logical_and(all, substitute(parts[j], to)));
      Node value = rewriter.rewrite(where(all, substitute(body, to), zero_like(body)));
      SmallVector<Node, 8> rest;
      for (Node other : node.args().subspan(1))
        if (other != r) rest.push_back(other);
      Node out = reduce_ranges(Op::Add, value, rest);
      return rest.empty() ? out : rewriter.simplify(out);
    }
  }
  return Node();
}

// sum over r < n of where(r < c and rest, e, 0) == the same over r < c: a gate that only cuts the range
// short.
Node cut_range(Node node, const Bindings&, Rewriter& rewriter) {
  if (!is_kernel_reduce(node) || reduce_op(node) != Op::Add) return Node();
  Node element = node.arg(0);
  Node condition = element.is(Op::Where) && is_plus_zero(element.arg(2)) ? element.arg(0)
                   : element.is(Op::Load) && element.arg_count() > 2     ? element.arg(2)
                                                                         : Node();
  if (!condition) return Node();
  SmallVector<Node, 8> parts;
  conjuncts(condition, parts);
  for (Node c : parts) {
    if (!c.is(Op::Less) || !c.arg(0).is(Op::Range) || !c.arg(1).is_const()) continue;
    Node r = c.arg(0);
    auto closed = node.args().subspan(1);
    if (std::find(closed.begin(), closed.end(), r) == closed.end()) continue;
    std::int64_t n = c.arg(1).int_attr();
    if (!r.arg(0).is_const() || n >= r.arg(0).int_attr() || n < 1) continue;
    NodeMap<Node> to;
    to[r] = range(index_const(n), range_id(r), range_kind(r));
    return rewriter.rewrite(substitute(node, to));
  }
  return Node();
}

// clang-format off
constexpr Pat x = any(0), y = any(1), p = any(2);
constexpr Rule kKernel[] = {
    {"gate-into-load",     where(p, x, y),          by(gate_into_load)},
    {"gate-one-factor",    node_of(Op::Reduce),     by(gate_one_factor)},
    {"drop-unused-range",  node_of(Op::Reduce),     by(drop_unused_range)},
    {"collapse-one-hot",   node_of(Op::Reduce),     by(collapse_one_hot)},
    {"join-sums",          node_of(Op::Reduce),     by(join_sums)},
    {"cut-range",          node_of(Op::Reduce),     by(cut_range)},
};
// clang-format on
static_assert(well_formed(kKernel));

}  // namespace

RuleTable kernel_algebra() {
  return {"kernel", kKernel, [](Node) { return true; }};
}

std::vector<RuleTable> all_tables() {
  return {folding(),         index_algebra(), compare_algebra(), logic_algebra(),
          integer_algebra(), float_algebra(), kernel_algebra()};
}

namespace {

// Several reduces may share a range. If one of them was shortened, its range is another one and gets a new
// number.
Node with_own_numbers(Node kernel) {
  NodeMap<Node> to;
  std::map<std::int64_t, Node> by_id;
  std::vector<Node> again;
  for (Node n : toposort(kernel))
    if (n.is(Op::Range) && !by_id.try_emplace(range_id(n), n).second) again.push_back(n);
  for (Node r : again) {
    const std::int64_t id = by_id.rbegin()->first + 1;
    by_id.try_emplace(id, r);
    to[r] = range(r.arg(0), id, range_kind(r));
  }
  return again.empty() ? kernel : substitute(kernel, to);
}

}  // namespace

Node simplify_kernel(Node kernel, const RuleChanges& changes) {
  static const auto* rules = new RuleSet("kernel", all_tables());
  return with_own_numbers(Rewriter(*rules, changes).rewrite(kernel));
}

}  // namespace lathe
