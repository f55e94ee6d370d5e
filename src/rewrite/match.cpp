#include <fmt/format.h>

#include "ir/build.h"
#include "rewrite/rule.h"

namespace lathe {
namespace {

bool literal_matches(std::int64_t literal, Node node) {
  if (!node.is_const()) return false;
  if (node.attr().kind == Attr::Kind::Int) return node.attr().i == literal;
  // Float literals match by value; zero matches only the zero of the same sign (+0).
  return node.attr().f == static_cast<double>(literal) && !(literal == 0 && std::signbit(node.attr().f));
}

bool match_at(const Pat& p, int at, Node node, Bindings& bound, unsigned& swaps) {
  const PatNode& n = p.nodes[static_cast<std::size_t>(at)];
  switch (n.kind) {
    case PatKind::Literal: return literal_matches(n.literal, node);
    case PatKind::Const:
      if (!node.is_const()) return false;
      [[fallthrough]];
    case PatKind::Any: {
      Node& slot = bound[n.slot];
      if (!slot) slot = node;
      return slot == node;
    }
    case PatKind::Apply: break;
    default: return false;
  }
  if (node.op() != n.op) return false;
  if (n.args == kAnyArgs) return true;
  if (node.arg_count() != n.args) return false;
  if (n.args != 2 || !is_commutative(n.op)) {
    for (std::size_t i = 0; i < n.args; ++i)
      if (!match_at(p, n.arg[i], node.arg(i), bound, swaps)) return false;
    return true;
  }
  // Each commutative node of the pattern owns one bit of `swaps`: the caller tries all settings.
  bool swap = swaps & 1;
  swaps >>= 1;
  Node left = node.arg(swap ? 1 : 0), right = node.arg(swap ? 0 : 1);
  return match_at(p, n.arg[0], left, bound, swaps) && match_at(p, n.arg[1], right, bound, swaps);
}

int commutative_nodes(const Pat& p) {
  int count = 0;
  for (int i = 0; i < p.size; ++i) {
    const PatNode& n = p.nodes[static_cast<std::size_t>(i)];
    count += n.kind == PatKind::Apply && n.args == 2 && is_commutative(n.op);
  }
  return count;
}

}  // namespace

bool match(const Pat& pattern, Node node, Bindings& bound) {
  const PatNode& root = pattern.root();
  if (root.kind == PatKind::Apply && node.op() != root.op) return false;
  int bits = commutative_nodes(pattern);
  for (unsigned order = 0; order < (1u << bits); ++order) {
    bound.fill(Node());
    unsigned swaps = order;
    if (match_at(pattern, pattern.size - 1, node, bound, swaps)) return true;
  }
  return false;
}

namespace {

// Values are 128 bits wide, so bounds arithmetic cannot overflow.
std::optional<__int128> number_at(const Pat& p, int at, const Bindings& bound) {
  const PatNode& n = p.nodes[static_cast<std::size_t>(at)];
  switch (n.kind) {
    case PatKind::Literal: return n.literal;
    case PatKind::Lo: return bound[n.slot].lo();
    case PatKind::Hi: return bound[n.slot].hi();
    case PatKind::Any:
    case PatKind::Const:
      if (!bound[n.slot].is_const() || bound[n.slot].attr().kind != Attr::Kind::Int) return std::nullopt;
      return bound[n.slot].attr().i;
    case PatKind::Apply: break;
  }
  auto x = number_at(p, n.arg[0], bound);
  if (!x) return std::nullopt;
  if (n.op == Op::And && *x == 0) return 0;
  if (n.op == Op::Or && *x != 0) return 1;
  if (n.args == 1) return n.op == Op::Not ? std::optional<__int128>(*x == 0) : std::nullopt;
  auto y = number_at(p, n.arg[1], bound);
  if (!y) return std::nullopt;
  auto floor_div = [](__int128 a, __int128 b) {
    __int128 q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
  };
  switch (n.op) {
    case Op::Add: return *x + *y;
    case Op::Mul: return *x * *y;
    case Op::FloorDiv: return *y == 0 ? std::nullopt : std::optional(floor_div(*x, *y));
    case Op::FloorMod: return *y == 0 ? std::nullopt : std::optional(*x - floor_div(*x, *y) * *y);
    case Op::Less: return *x < *y;
    case Op::Eq: return *x == *y;
    case Op::Ne: return *x != *y;
    case Op::And: return *x != 0 && *y != 0;
    case Op::Or: return *x != 0 || *y != 0;
    default: return std::nullopt;
  }
}

}  // namespace

bool holds(const Pat& when, const Bindings& bound) {
  if (when.empty()) return true;
  auto value = number_at(when, when.size - 1, bound);
  return value && *value != 0;
}

namespace {

std::string text_at(const Pat& p, int at) {
  const PatNode& n = p.nodes[static_cast<std::size_t>(at)];
  switch (n.kind) {
    case PatKind::Any: return fmt::format("x{}", n.slot);
    case PatKind::Const: return fmt::format("c{}", n.slot);
    case PatKind::Literal: return fmt::format("{}", n.literal);
    case PatKind::Lo: return fmt::format("lo(x{})", n.slot);
    case PatKind::Hi: return fmt::format("hi(x{})", n.slot);
    case PatKind::Apply: break;
  }
  std::string out = fmt::format("{}(", info(n.op).name);
  for (std::size_t i = 0; i < n.args && n.args != kAnyArgs; ++i)
    out += (i > 0 ? ", " : "") + text_at(p, n.arg[i]);
  return out + ")";
}

std::string mismatch_at(const Pat& p, int at, Node node, Bindings& bound) {
  const PatNode& n = p.nodes[static_cast<std::size_t>(at)];
  unsigned none = 0;
  if (n.kind != PatKind::Apply)
    return match_at(p, at, node, bound, none) ? ""
                                              : fmt::format("{} is not {}", index_text(node), text_at(p, at));
  if (node.op() != n.op)
    return fmt::format("{} is {}, not {}", index_text(node), info(node.op()).name, info(n.op).name);
  for (std::size_t i = 0; i < n.args && n.args != kAnyArgs; ++i)
    if (std::string why = mismatch_at(p, n.arg[i], node.arg(i), bound); !why.empty()) return why;
  return "";
}

}  // namespace

std::string to_string(const Pat& pattern) {
  return pattern.empty() ? "" : text_at(pattern, pattern.size - 1);
}

std::string explain_mismatch(const Pat& pattern, Node node) {
  Bindings bound{};
  if (match(pattern, node, bound)) return "";
  bound.fill(Node());
  return mismatch_at(pattern, pattern.size - 1, node, bound);
}

}  // namespace lathe
