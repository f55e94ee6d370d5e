// A rewrite rule is a row: a name, what it matches, what it becomes, and when. Where the right side needs
// code, the row names a function. Tables say on which dtypes their rules hold.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "ir/node.h"
#include "rewrite/pattern.h"

namespace lathe {

using Bindings = std::array<Node, kPatSlots>;

class Rewriter;

// Right side as code: the new node, or null for "does not apply". New nodes may be simplified through the
// rewriter.
using RuleFunction = Node (*)(Node node, const Bindings& bound, Rewriter& rewriter);

// Names a function as a row's right side: `by(fold_divmod)`.
struct By {
  RuleFunction function;
};
constexpr By by(RuleFunction function) { return {function}; }

struct Rule {
  std::string_view name;
  Pat from;
  Pat to;
  Pat when;
  RuleFunction function = nullptr;

  constexpr Rule(std::string_view n, Pat f, Pat t, Pat w = {}) : name(n), from(f), to(t), when(w) {}
  constexpr Rule(std::string_view n, Pat f, By b, Pat w = {})
      : name(n), from(f), when(w), function(b.function) {}
};

// A named table of rules that hold for nodes accepted by `applies` (asked once a node, before any pattern).
// Nodes accepted by `joins` are taken by the table's rules together with the joining nodes below them, as a
// sum of sums is one sum: the driver looks only at the topmost, so that a chain costs one look and not one a
// link.
struct RuleTable {
  std::string_view name;
  std::span<const Rule> rules;
  bool (*applies)(Node node);
  bool (*joins)(Node node) = nullptr;
};

// Named, and nothing on the right or in `when` that the left does not bind.
constexpr bool well_formed(std::span<const Rule> rules) {
  for (const Rule& rule : rules) {
    if (rule.name.empty() || rule.from.empty()) return false;
    unsigned bound = 0, used = 0;
    for (int i = 0; i < rule.from.size; ++i) {
      const PatNode& n = rule.from.nodes[static_cast<std::size_t>(i)];
      if (n.kind == PatKind::Any || n.kind == PatKind::Const) bound |= 1u << n.slot;
    }
    for (const Pat* p : {&rule.to, &rule.when})
      for (int i = 0; i < p->size; ++i) {
        const PatNode& n = p->nodes[static_cast<std::size_t>(i)];
        if (n.kind != PatKind::Literal && n.kind != PatKind::Apply) used |= 1u << n.slot;
      }
    if ((used & ~bound) != 0) return false;
    if (rule.to.empty() == (rule.function == nullptr)) return false;
  }
  return true;
}

// Whether `pattern` matches `node`; fills the slots. Operands of commutative ops are tried in both orders.
bool match(const Pat& pattern, Node node, Bindings& bound);

// Why a pattern does not match a node: the first difference, in words; empty if it matches.
std::string explain_mismatch(const Pat& pattern, Node node);

// The value of a `when` expression over matched constants and bounds. Division by zero makes it false.
bool holds(const Pat& when, const Bindings& bound);

}  // namespace lathe
