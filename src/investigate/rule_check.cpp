#include "investigate/rule_check.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/hash.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/value.h"
#include "ir/walk.h"

namespace lathe::investigate {
namespace {

constexpr int kSamples = 64;
// Larger graphs are not evaluated: rules look at a few nodes.
constexpr std::size_t kMostNodes = 200;

// An op whose value follows from its operands'.
bool is_computed(Node n) {
  return (is_scalar_op(n.op()) || n.is(Op::Cast) || n.is(Op::Splat)) && n.arg_count() <= 3;
}
bool enters(Node n) { return is_computed(n); }

std::vector<Node> leaves(Node root) {
  std::vector<Node> out;
  for (Node n : toposort(std::span<const Node>(&root, 1), enters))
    if (!is_computed(n) && !n.is_const()) out.push_back(n);
  return out;
}

// A value that the leaf may have: its ends more often than others.
Element sample(Node leaf, std::uint64_t random) {
  const DType dtype = leaf.dtype().element();
  if (dtype.is_float()) {
    const double fine = static_cast<double>(random >> 12) * 0x1p-51 - 1;
    return convert(dtype, dtypes::Float64, {0, random % 8 == 0 ? 0.0 : 4 * fine});
  }
  const std::int64_t lo = leaf.lo(), hi = leaf.hi();
  if (lo > hi) return {lo, 0};
  const auto span = static_cast<std::uint64_t>(hi) - static_cast<std::uint64_t>(lo);
  const std::uint64_t at = random % 5 == 0   ? 0
                           : random % 5 == 1 ? span
                           : span == ~0ull   ? random
                                             : (random >> 8) % (span + 1);
  return {static_cast<std::int64_t>(static_cast<std::uint64_t>(lo) + at), 0};
}

Element value_of(Node root, const NodeMap<Element>& given) {
  NodeMap<Element> values;
  for (Node n : toposort(std::span<const Node>(&root, 1), enters)) {
    Element v;
    if (const Element* leaf = given.find(n)) {
      v = *leaf;
    } else if (n.is_const()) {
      v = element_of(n);
    } else if (n.is(Op::Splat)) {
      v = values[n.arg(0)];
    } else if (n.is(Op::Cast)) {
      v = convert(n.dtype().element(), n.arg(0).dtype().element(), values[n.arg(0)]);
    } else {
      Element a[3];
      for (std::size_t i = 0; i < n.arg_count(); ++i) a[i] = values[n.arg(i)];
      v = evaluate(n.op(), n.arg(n.arg_count() - 1).dtype().element(), a[0], a[1], a[2]);
    }
    values[n] = v;
  }
  return values[root];
}

bool same(DType dtype, Element x, Element y) {
  if (!dtype.is_float()) return x.i == y.i;
  if (x.f == y.f || (std::isnan(x.f) && std::isnan(y.f))) return true;
  return std::fabs(x.f - y.f) <= 1e-3 * (std::fabs(x.f) + 1);
}

std::string number(DType dtype, Element v) {
  return dtype.is_float() ? fmt::format("{}", v.f) : fmt::format("{}", v.i);
}

}  // namespace

std::string difference(Node before, Node after) {
  if (!is_computed(before)) return "";
  const std::vector<Node> given = leaves(before), other = leaves(after);
  if (toposort(before).size() > kMostNodes) return "";
  for (Node leaf : other)
    if (std::ranges::find(given, leaf) == given.end()) return "";
  for (Node leaf : given)
    if (leaf.is(Op::Vec) || leaf.is(Op::Iota)) return "";  // its lanes have values of their own
  for (int i = 0; i < kSamples; ++i) {
    NodeMap<Element> values;
    for (std::size_t l = 0; l < given.size(); ++l)
      values[given[l]] = sample(given[l], hash_combine(hash_mix(static_cast<std::uint64_t>(i) * 131 + 7), l));
    const Element x = value_of(before, values), y = value_of(after, values);
    const DType dtype = before.dtype().element();
    if (same(dtype, x, y)) continue;
    return fmt::format("{} was {} and became {}, which is {}", index_text(before), number(dtype, x),
                       index_text(after), number(dtype, y));
  }
  return "";
}

void RuleCheck::add(std::string_view table, std::string_view rule, Node before, Node after) {
  auto use =
      std::ranges::find_if(uses_, [&](const RuleUse& u) { return u.name == rule && u.table == table; });
  if (use == uses_.end()) use = uses_.insert(use, {std::string(rule), std::string(table), 0, false, ""});
  ++use->times;
  if (use->changes_value) return;
  use->example = difference(before, after);
  use->changes_value = !use->example.empty();
  if (use->changes_value) wrong_.push_back(static_cast<std::size_t>(use - uses_.begin()));
}

std::vector<RuleUse> RuleCheck::uses() const {
  std::vector<RuleUse> out;
  for (const std::size_t at : wrong_) out.push_back(uses_[at]);
  for (const RuleUse& use : uses_)
    if (!use.changes_value) out.push_back(use);
  return out;
}

}  // namespace lathe::investigate
