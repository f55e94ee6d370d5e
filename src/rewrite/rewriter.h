// The driver: applies tables of rules to a graph, operands before users, without recursion over the graph's
// depth. Each node is visited once; what a rule builds is simplified as it is built, so there is no outer
// fixpoint loop.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/node.h"
#include "ir/walk.h"
#include "rewrite/rule.h"

namespace lathe {

// Receives every rule application; off by default, and free when off.
struct RewriteTrace {
  virtual ~RewriteTrace() = default;
  virtual void applied(std::string_view table, std::string_view rule, Node before, Node after) = 0;
};

// What one compile changes about rewriting. Every rewrite of the compile gets the same one: there is no other
// state that decides which rules apply.
class RuleSet;
struct RuleChanges {
  std::vector<std::string> disabled;  // rules and optional steps the compile does without, by name
  const RuleSet* planted = nullptr;   // tried after the rules of every rewrite: faults for tests, experiments
  RewriteTrace* trace = nullptr;      // told of every application

  bool disables(std::string_view name) const;
  // Disabled and planted rules by name: part of every cache key. Empty where there are none.
  std::string key() const;
};
inline const RuleChanges kRulesAsWritten;

// `apply` of ir/build.h over a list.
Node apply_scalar(Op op, std::span<const Node> args);

struct RewriteStats {
  std::uint64_t visited = 0;  // nodes looked at
  std::uint64_t applied = 0;  // rule applications
};

// A rule set prepared for matching: tables joined in order, rules indexed by their root op.
class RuleSet {
 public:
  RuleSet(std::string_view name, std::vector<RuleTable> tables);
  struct Entry {
    const RuleTable* table;
    const Rule* rule;
    // What the pattern asks of the operands, so that most rules are passed over without matching: an op (or
    // kNoOp for any) for each, in either order where the root commutes.
    std::array<std::uint8_t, 2> operand_ops;
    bool either_order;
    bool may_match(Node node) const;
  };
  std::span<const Entry> for_op(Op op) const { return by_op_[static_cast<std::size_t>(op)]; }
  bool joins(Node node) const;
  std::string_view name() const { return name_; }
  std::span<const RuleTable> tables() const { return tables_; }

 private:
  std::string name_;
  std::vector<RuleTable> tables_;
  std::vector<std::vector<Entry>> by_op_;
  std::vector<bool (*)(Node)> joining_;
};

class Rewriter {
 public:
  // Both outlive the rewriter.
  Rewriter(const RuleSet& rules, const RuleChanges& changes) : rules_(rules), changes_(changes) {}

  // The graph rewritten. Results are remembered, so several roots may share one Rewriter.
  Node rewrite(Node root);
  // A node whose operands are already rewritten.
  Node simplify(Node node);
  Node apply(Op op, Node x) { return simplify(apply_scalar(op, {&x, 1})); }
  Node apply(Op op, Node x, Node y) {
    Node a[] = {x, y};
    return simplify(apply_scalar(op, a));
  }
  Node apply(Op op, Node x, Node y, Node z) {
    Node a[] = {x, y, z};
    return simplify(apply_scalar(op, a));
  }

  const RuleChanges& changes() const { return changes_; }
  const RewriteStats& stats() const { return stats_; }

 private:
  Node step(Node node);
  Node step(const RuleSet& rules, Node node);
  Node build(const Pat& pattern, int at, const Bindings& bound, DType dtype);

  const RuleSet& rules_;
  const RuleChanges& changes_;
  NodeMap<Node> done_;
  RewriteStats stats_;
  int depth_ = 0;
  std::string_view last_rule_, rule_before_;
};

}  // namespace lathe
