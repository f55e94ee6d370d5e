#include "rewrite/rewriter.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/planted.h"
#include "base/small_vector.h"
#include "ir/build.h"

namespace lathe {
namespace {

// Rules that undo each other would build forever. A position that changes this often is looping.
constexpr int kMaxStepsAtOneNode = 1000;
constexpr int kMaxDepth = 1000;

constexpr std::uint8_t kNoOp = 255;
static_assert(kOps < kNoOp);

// The op an operand must have for a pattern to match, or kNoOp.
std::uint8_t needed_op(const Pat& pattern, std::size_t operand) {
  const PatNode& root = pattern.root();
  if (root.kind != PatKind::Apply || root.args == kAnyArgs || operand >= root.args) return kNoOp;
  const PatNode& n = pattern.nodes[root.arg[operand]];
  if (n.kind == PatKind::Apply) return static_cast<std::uint8_t>(n.op);
  if (n.kind == PatKind::Const || n.kind == PatKind::Literal) return static_cast<std::uint8_t>(Op::Const);
  return kNoOp;
}

// What a rule with a planted fault gives.
[[maybe_unused]] Node off_by_one(Node right) {
  const DType dtype = right.dtype();
  // A sum of constants would be folded again, without end.
  if (right.is_const() && dtype.lanes == 1)
    return number(dtype, dtype.is_bool() ? 1 - right.const_float() : right.const_float() + 1);
  if (dtype.is_bool()) return apply(Op::Not, right);
  if (right.is_const() || right.arg_count() != 2 || !right.arg(1).is_const() || dtype.lanes > 1)
    return right + splat(number(dtype.element(), 1), dtype.lanes);
  Node args[] = {right.arg(0), number(right.arg(1).dtype(), right.arg(1).const_float() + 1)};
  return rebuild(right, args);
}

}  // namespace

bool RuleChanges::disables(std::string_view name) const {
  return !disabled.empty() && std::find(disabled.begin(), disabled.end(), name) != disabled.end();
}

std::string RuleChanges::key() const {
  std::string text;
  for (const std::string& name : disabled) text.append("without ").append(name).append(" ");
  if (planted == nullptr) return text;
  for (const RuleTable& table : planted->tables())
    for (const Rule& rule : table.rules) text += fmt::format("planted {}.{} ", planted->name(), rule.name);
  return text;
}

Node apply_scalar(Op op, std::span<const Node> args) {
  if (args.size() == 1) return apply(op, args[0]);
  if (args.size() == 2) return apply(op, args[0], args[1]);
  return apply(op, args[0], args[1], args[2]);
}

RuleSet::RuleSet(std::string_view name, std::vector<RuleTable> tables)
    : name_(name), tables_(std::move(tables)), by_op_(kOps) {
  for (const RuleTable& table : tables_) {
    if (table.joins != nullptr) joining_.push_back(table.joins);
    for (const Rule& rule : table.rules) {
      const PatNode& root = rule.from.root();
      by_op_[static_cast<std::size_t>(root.op)].push_back({&table,
                                                           &rule,
                                                           {needed_op(rule.from, 0), needed_op(rule.from, 1)},
                                                           root.args == 2 && is_commutative(root.op)});
    }
  }
}

bool RuleSet::Entry::may_match(Node node) const {
  auto fits = [&](std::size_t pattern, std::size_t operand) {
    return operand_ops[pattern] == kNoOp ||
           operand_ops[pattern] == static_cast<std::uint8_t>(node.arg(operand).op());
  };
  if (operand_ops[0] == kNoOp && operand_ops[1] == kNoOp) return true;
  if (node.arg_count() < 2) return node.arg_count() == 0 || fits(0, 0);
  return (fits(0, 0) && fits(1, 1)) || (either_order && fits(0, 1) && fits(1, 0));
}

bool RuleSet::joins(Node node) const {
  for (auto joins : joining_)
    if (joins(node)) return true;
  return false;
}

Node Rewriter::build(const Pat& p, int at, const Bindings& bound, DType dtype) {
  const PatNode& n = p.nodes[static_cast<std::size_t>(at)];
  if (n.kind == PatKind::Literal)
    return splat(number(dtype.element(), static_cast<double>(n.literal)), dtype.lanes);
  if (n.kind != PatKind::Apply) return bound[n.slot];
  // A literal takes the dtype of its siblings; alone, that of the node being replaced.
  DType operand = dtype;
  for (std::size_t i = 0; i < n.args; ++i) {
    const PatNode& a = p.nodes[n.arg[i]];
    if ((a.kind == PatKind::Any || a.kind == PatKind::Const) && !(n.op == Op::Where && i == 0))
      operand = bound[a.slot].dtype();
  }
  SmallVector<Node, 3> args;
  for (std::size_t i = 0; i < n.args; ++i) {
    DType want = n.op == Op::Where && i == 0 ? dtypes::Bool.vec(operand.lanes) : operand;
    args.push_back(build(p, n.arg[i], bound, want));
  }
  return simplify(apply_scalar(n.op, args));
}

// One rule applied at the root, or null.
Node Rewriter::step(Node node) {
  Node out = step(rules_, node);
  return out || changes_.planted == nullptr ? out : step(*changes_.planted, node);
}

Node Rewriter::step(const RuleSet& rules, Node node) {
  const RuleTable* table = nullptr;
  bool table_applies = false;
  Bindings bound;
  for (const RuleSet::Entry& entry : rules.for_op(node.op())) {
    if (entry.table != table) {
      table = entry.table;
      table_applies = table->applies(node);
    }
    if (!table_applies || !entry.may_match(node) || !match(entry.rule->from, node, bound)) continue;
    if (!holds(entry.rule->when, bound) && !planted_in(Planting::RuleGuard, entry.rule->name)) continue;
    if (changes_.disables(entry.rule->name)) continue;
    std::string_view name = entry.rule->name;
    // Told if this one never ends; of one that changes nothing nobody is told.
    const std::string_view before = std::exchange(rule_before_, std::exchange(last_rule_, name));
    Node out = entry.rule->function != nullptr
                   ? entry.rule->function(node, bound, *this)
                   : build(entry.rule->to, entry.rule->to.size - 1, bound, node.dtype());
    if (!out || out == node) {
      last_rule_ = std::exchange(rule_before_, before);
      continue;
    }
    if (planted_in(Planting::RuleConstant, name)) out = off_by_one(out);
    if (out.dtype() != node.dtype())
      throw InternalError("rewrite", fmt::format("rule {} of {} turned {} into {}", name, table->name,
                                                 node.dtype().str(), out.dtype().str()));
    ++stats_.applied;
    if (changes_.trace != nullptr) changes_.trace->applied(table->name, name, node, out);
    return out;
  }
  return Node();
}

Node Rewriter::simplify(Node node) {
  if (node.arg_count() == 0) return node;
  if (const Node* known = done_.find(node)) return *known;
  ++stats_.visited;
  if (take_interrupt())
    throw UserError("interrupted", fmt::format("in {} after {} nodes, last rule {}", rules_.name(),
                                               stats_.visited, last_rule_.empty() ? "none" : last_rule_));
  if (++depth_ > kMaxDepth)
    throw InternalError("rewrite", fmt::format("rules {} and {} undo each other", rule_before_, last_rule_));
  Node now = node;
  for (int steps = 0;; ++steps) {
    Node next = step(now);
    if (!next) break;
    if (steps > kMaxStepsAtOneNode)
      throw InternalError("rewrite", fmt::format("rules {} and {} undo each other at {}", rule_before_,
                                                 last_rule_, index_text(node)));
    now = next;
    if (const Node* known = done_.find(now)) {
      now = *known;
      break;
    }
  }
  --depth_;
  done_.try_emplace(node, now);
  if (now != node) done_.try_emplace(now, now);
  return now;
}

Node Rewriter::rewrite(Node root) {
  struct Frame {
    Node node;
    std::uint32_t next;
  };
  if (const Node* known = done_.find(root)) return *known;
  if (root.arg_count() == 0) return root;
  NodeMap<Node> seen;
  std::vector<Frame> stack{{root, 0}};
  SmallVector<Node, 16> args;
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next < top.node.arg_count()) {
      Node arg = top.node.arg(top.next++);
      if (arg.arg_count() > 0 && !seen.contains(arg)) stack.push_back({arg, 0});
      continue;
    }
    Node node = top.node;
    stack.pop_back();
    if (seen.contains(node)) continue;
    args.clear();
    bool changed = false, joining = rules_.joins(node);
    for (Node a : node.args()) {
      Node to = a.arg_count() == 0 ? a : *seen.find(a);
      if (!joining && to.arg_count() > 0 && rules_.joins(to)) to = simplify(to);
      changed |= to != a;
      args.push_back(to);
    }
    Node now = changed ? rebuild(node, std::span<const Node>(args.data(), args.size())) : node;
    seen.try_emplace(node, joining ? now : simplify(now));
  }
  return simplify(*seen.find(root));
}

}  // namespace lathe
