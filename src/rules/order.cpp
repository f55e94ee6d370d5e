#include "rules/order.h"

#include <algorithm>
#include <cmath>

#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"

namespace lathe {
namespace {

// Sums over an expression as a tree: what is in it twice counts twice.
template <class Own>
double tree_sum(Node root, Own own) {
  NodeMap<double> sums;
  for (Node n : toposort(root)) {
    double sum = own(n);
    for (Node a : n.args()) sum += *sums.find(a);
    sums.try_emplace(n, sum);
  }
  return *sums.find(root);
}

// Ops, constants for less; on bool, what is not logic for more, since there is a logic op for it.
double weight_of(Node n) {
  if (n.is_const()) return 0.5;
  if (n.is(Op::Where)) return 2;
  const bool logic = n.is(Op::And) || n.is(Op::Or) || n.is(Op::Not);
  return n.dtype().is_bool() && !logic && n.arg_count() > 0 ? 2 : 1;
}

// Sums of something and a constant that are added to something else: constants belong to the last sum.
double constants_inside(Node n) {
  if (!n.is(Op::Add)) return 0;
  auto has_constant = [](Node a) { return a.is(Op::Add) && (a.arg(0).is_const() || a.arg(1).is_const()); };
  return static_cast<double>(std::count_if(n.args().begin(), n.args().end(), has_constant));
}

std::vector<double> by_weight(Node n) { return {tree_sum(n, weight_of), tree_sum(n, constants_inside)}; }

bool is_linear_op(Node n) {
  return n.dtype().is_index() && (n.is(Op::Add) || (n.is(Op::Mul) && n.arg(1).is_const()));
}

bool divides(Node n) { return (n.is(Op::FloorDiv) || n.is(Op::FloorMod)) && n.arg(1).is_const(); }

// A sum over an index expression in which a sum of terms counts as its terms, however it is written, and
// constants count nothing.
template <class Own>
double sum_of_terms(Node root, Own own) {
  NodeMap<double> sums;
  for (Node n : toposort(root)) {
    double below = 0;
    if (is_linear_op(n))
      for (const Term& t : linear(n).terms) below += *sums.find(t.node);
    else
      for (Node a : n.args()) below += *sums.find(a);
    const bool counts = !is_linear_op(n) && !(n.is_const() && n.dtype().is_index());
    sums.try_emplace(n, counts ? own(n, below) : below);
  }
  return *sums.find(root);
}

// Each leaf counts as often as all that divides it: x/6/2 is as good as x/12, (6*x + y)/12 worse than
// (x + y/6)/2.
double divided_leaves(Node n, double below) {
  if (n.arg_count() == 0) return 1;
  return divides(n) ? below * std::fabs(static_cast<double>(n.arg(1).const_int())) : below;
}
// Not is free: which side of a comparison is the constant decides whether it is needed.
double weight_and_below(Node n, double below) { return (n.is(Op::Not) ? 0 : weight_of(n)) + below; }

double constants(Node n) {
  return n.is_const() && n.dtype().is_index() ? 1 + std::fabs(static_cast<double>(n.const_int())) : 0;
}

// Sums that are not in normal form; constants that a division could give back; comparisons of something else
// than such a sum with a constant.
double not_normal(Node n) {
  if (is_linear_op(n)) return is_normal_sum(n) ? 0 : 1;
  if (divides(n)) {
    const std::int64_t constant = linear(n.arg(0)).constant;
    return constant < 0 || constant >= n.arg(1).const_int() ? 1 : 0;
  }
  return n.is(Op::Less) && !n.arg(1).is_const() ? 1 : 0;
}

std::vector<double> by_terms(Node n) {
  return {sum_of_terms(n, divided_leaves), sum_of_terms(n, weight_and_below), tree_sum(n, not_normal),
          tree_sum(n, constants)};
}

// Ranges that reduces run over, each once, and their steps.
std::vector<double> by_ranges(Node root) {
  NodeMap<char> ranges;
  for (Node n : toposort(root))
    if (n.is(Op::Reduce))
      for (Node r : closed_ranges(n)) ranges.try_emplace(r, 1);
  double steps = 0;
  for (const auto& [range, one] : ranges) steps += static_cast<double>(range.arg(0).hi());
  return {static_cast<double>(ranges.size()), steps, tree_sum(root, weight_of)};
}

// clang-format off
constexpr const char* kWeight = "the weight of its ops, then constants inside of sums";
constexpr const char* kTerms =
    "its leaves, counted once per divisor, then the weight of its terms, then terms not in normal form, then constants";
constexpr RuleOrder kOrders[] = {
    {"index-algebra",   kTerms,  by_terms},
    {"compare-algebra", kTerms,  by_terms},
    {"logic",           kWeight, by_weight},
    {"integer",         kWeight, by_weight},
    {"float",           kWeight, by_weight},
    {"folding",         kWeight, by_weight},
    {"kernel",          "the number of ranges that reduces run over, then their steps, then the weight of its ops", by_ranges},
};
// clang-format on

}  // namespace

std::span<const RuleOrder> rule_orders() { return kOrders; }

const RuleOrder* find_rule_order(std::string_view table) {
  const auto* found = std::find_if(std::begin(kOrders), std::end(kOrders),
                                   [&](const RuleOrder& o) { return o.table == table; });
  return found == std::end(kOrders) ? nullptr : found;
}

bool shrinks(const RuleOrder& order, Node before, Node after) {
  return order.measure(after) < order.measure(before);
}

}  // namespace lathe
