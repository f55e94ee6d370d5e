#include "verify/interval.h"

#include <algorithm>
#include <limits>

#include "ir/value.h"
#include "rules/linear.h"

namespace lathe::verify {
namespace {

__extension__ using Wide = __int128;
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min(),
                       kMax = std::numeric_limits<std::int64_t>::max();

std::int64_t clamp(Wide v) { return static_cast<std::int64_t>(std::clamp<Wide>(v, kMin, kMax)); }

Interval meet(Interval a, Interval b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }

// What the exact interval says, unless the result may leave the dtype: then it wraps and says nothing.
Interval exact(DType dtype, Interval own, Wide lo, Wide hi) {
  if (lo < dtype.min_int() || hi > dtype.max_int()) return own;
  return meet(own, {static_cast<std::int64_t>(lo), static_cast<std::int64_t>(hi)});
}
Interval times(DType dtype, Interval own, Interval x, Interval y) {
  Wide p[] = {Wide(x.lo) * y.lo, Wide(x.lo) * y.hi, Wide(x.hi) * y.lo, Wide(x.hi) * y.hi};
  return exact(dtype, own, *std::min_element(p, p + 4), *std::max_element(p, p + 4));
}

}  // namespace

Interval Assumptions::known(Node node) const {
  Interval own{node.lo(), node.hi()};
  if (const Interval* n = narrowed_.find(node)) own = meet(own, *n);
  if (const Interval* c = computed_.find(node)) own = meet(own, *c);
  return own;
}

// Only ops whose result grows or shrinks with their operands; the node's own bounds cover the rest.
Interval Assumptions::compute(Node n) const {
  Interval own = known(n);
  if (n.arg_count() == 0 || n.dtype().is_float()) return own;
  Interval x = known(n.arg(0)), y = n.arg_count() > 1 ? known(n.arg(1)) : x;
  switch (n.op()) {
    case Op::Add:
      if (n.dtype().is_bool()) return own;
      return exact(n.dtype(), own, Wide(x.lo) + y.lo, Wide(x.hi) + y.hi);
    case Op::Mul:
      if (n.dtype().is_bool()) return own;
      return times(n.dtype(), own, x, y);
    case Op::Max: return meet(own, {std::max(x.lo, y.lo), std::max(x.hi, y.hi)});
    case Op::Min: return meet(own, {std::min(x.lo, y.lo), std::min(x.hi, y.hi)});
    case Op::FloorDiv:
      if (y.lo != y.hi || y.lo <= 0) return own;
      return meet(own, {value::floor_div(x.lo, y.lo), value::floor_div(x.hi, y.lo)});
    case Op::TruncDiv:
      if (y.lo != y.hi || y.lo <= 0) return own;
      return meet(own, {value::trunc_div(x.lo, y.lo), value::trunc_div(x.hi, y.lo)});
    case Op::FloorMod:
    case Op::TruncMod: {
      bool whole = n.is(Op::FloorMod) || x.lo >= 0;
      if (!whole || y.lo != y.hi || y.lo <= 0 || value::floor_div(x.lo, y.lo) != value::floor_div(x.hi, y.lo))
        return own;
      return meet(own, {value::floor_mod(x.lo, y.lo), value::floor_mod(x.hi, y.lo)});
    }
    case Op::Where: {
      Interval z = known(n.arg(2));
      return meet(own, {std::min(y.lo, z.lo), std::max(y.hi, z.hi)});
    }
    case Op::Cast: {
      DType from = n.arg(0).dtype();
      bool fits = (from.is_int() || from.is_bool()) && from.scalar != Scalar::UInt64 &&
                  x.lo >= n.dtype().min_int() && x.hi <= n.dtype().max_int() && n.dtype().is_int();
      return fits ? meet(own, x) : own;
    }
    case Op::Splat:
    case Op::Lane: return meet(own, x);
    case Op::Range: return meet(own, {0, clamp(Wide(x.hi) - 1)});
    default: return own;
  }
}

Interval Assumptions::of(Node expression) {
  for (Node n : toposort(expression))
    if (n.dtype().is_int() || n.dtype().is_bool()) computed_[n] = compute(n);
  return known(expression);
}

namespace {

// How often the terms of `part` are in `sum`, all of them alike; 0 where they are not.
std::int64_t times_in(const Linear& part, const Linear& sum) {
  std::int64_t times = 0;
  for (const Term& t : part.terms) {
    const auto found = std::find_if(sum.terms.begin(), sum.terms.end(),
                                    [&](const Term& other) { return other.node == t.node; });
    if (found == sum.terms.end() || found->coefficient % t.coefficient != 0) return 0;
    const std::int64_t here = found->coefficient / t.coefficient;
    if (times != 0 && here != times) return 0;
    times = here;
  }
  return times;
}

}  // namespace

Interval Assumptions::of_sum(Node index) {
  Interval own = of(index);
  if (!index.dtype().is_index() || index.dtype().lanes != 1) return own;
  Linear rest = linear(index);
  Wide lo = 0, hi = 0;
  auto add = [&](Interval part, std::int64_t times) {
    lo += Wide(times) * (times > 0 ? part.lo : part.hi);
    hi += Wide(times) * (times > 0 ? part.hi : part.lo);
  };
  for (const auto& [node, to] : narrowed_) {
    if (!node.is(Op::Add) || !node.dtype().is_index()) continue;
    const Linear part = linear(node);
    const std::int64_t times = part.terms.size() > 1 ? times_in(part, rest) : 0;
    if (times == 0) continue;
    for (const Term& t : part.terms) rest.add_term(t.node, -times * t.coefficient);
    rest.constant -= times * part.constant;
    add(known(node), times);
  }
  for (const Term& t : rest.terms) add(of(t.node), t.coefficient);
  return meet(own, {clamp(lo + rest.constant), clamp(hi + rest.constant)});
}

void Assumptions::narrow(Node node, Interval to) {
  Interval now = meet(known(node), to);
  narrowed_[node] = now;
  if (now.lo > now.hi) possible_ = false;
}

void Assumptions::assume(Node condition) {
  // Twice, so that what a later condition says about a node reaches the comparisons of an earlier one.
  for (int round = 0; round < 2; ++round) {
    std::vector<std::pair<Node, bool>> open = {{condition, true}};
    while (!open.empty()) {
      auto [c, holds] = open.back();
      open.pop_back();
      if (c.is(Op::Not))
        open.emplace_back(c.arg(0), !holds);
      else if (c.is(Op::Splat))
        open.emplace_back(c.arg(0), holds);
      else if ((c.is(Op::And) || c.is(Op::Mul)) && holds)
        open.insert(open.end(), {{c.arg(1), true}, {c.arg(0), true}});
      else if ((c.is(Op::Or) || c.is(Op::Add)) && !holds)
        open.insert(open.end(), {{c.arg(1), false}, {c.arg(0), false}});
      else
        assume_one(c, holds);
    }
  }
}

void Assumptions::assume_one(Node c, bool holds) {
  if (c.dtype().lanes != 1) return;  // says something about each lane apart
  if (c.is_const()) {
    possible_ = possible_ && (c.int_attr() != 0) == holds;
    return;
  }
  if ((!c.is(Op::Less) && !c.is(Op::Eq) && !c.is(Op::Ne)) || c.arg(0).dtype().is_float()) return;
  Node x = c.arg(0), y = c.arg(1);
  Interval a = of(x), b = of(y);
  if (c.is(Op::Less) && holds) {
    narrow(x, {kMin, clamp(Wide(b.hi) - 1)});
    narrow(y, {clamp(Wide(a.lo) + 1), kMax});
  } else if (c.is(Op::Less)) {
    narrow(x, {b.lo, kMax});
    narrow(y, {kMin, a.hi});
  } else if (c.is(Op::Eq) == holds) {
    narrow(x, b);
    narrow(y, a);
  }
  computed_.clear();
}

}  // namespace lathe::verify
