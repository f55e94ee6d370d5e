// Conditions as lists of conjuncts, without constants that are always true.
#pragma once

#include <cmath>

#include "ir/build.h"
#include "ir/node.h"

namespace lathe {

// Each of the conditions that together are this one, from left to right.
template <class Use>
void for_each_conjunct(Node condition, Use&& use) {
  if (condition.is(Op::And) && condition.dtype().is_bool()) {
    for_each_conjunct(condition.arg(0), use);
    for_each_conjunct(condition.arg(1), use);
  } else {
    use(condition);
  }
}

// Both conditions, where null is one that always holds.
inline Node both(Node a, Node b) { return !a ? b : !b ? a : logical_and(a, b); }

// A constant 0 of any dtype, in all lanes; -0 counts.
inline bool is_zero(Node n) {
  if (n.is(Op::Splat)) n = n.arg(0);
  return n.is_const() && (n.attr().kind == Attr::Kind::Float ? n.attr().f == 0 : n.attr().i == 0);
}

// The same without -0, which an addition tells from it.
inline bool is_plus_zero(Node n) {
  if (n.is(Op::Splat)) n = n.arg(0);
  return is_zero(n) && (n.attr().kind != Attr::Kind::Float || !std::signbit(n.attr().f));
}

}  // namespace lathe
