// Patterns as constexpr data: quick to build, printable, indexable by root op, testable from the table. A Pat
// is a small expression over slots: on the left of a rule it is matched, on the right it is built, in `when`
// it is evaluated.
//
//   constexpr Pat x = any(0), c0 = any_const(1);
//   Rule{"mul-one", x * 1, x}
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "ir/op.h"

namespace lathe {

enum class PatKind : std::uint8_t {
  Any,      // any node; equal slots match equal nodes
  Const,    // a constant
  Literal,  // a constant of this value
  Apply,    // an op over sub-patterns
  Lo,
  Hi,  // (in `when`) the bounds of a slot's node
};

struct PatNode {
  PatKind kind = PatKind::Any;
  Op op = Op::Add;
  std::uint8_t slot = 0;
  std::uint8_t args = 0;
  std::array<std::uint8_t, 3> arg{};
  std::int64_t literal = 0;
};

inline constexpr std::uint8_t kAnyArgs = 255;  // an Apply that matches its op with whatever operands
inline constexpr int kPatNodes = 16;
inline constexpr int kPatSlots = 8;

// Sub-patterns are before their users; the last node is the root. An empty Pat means "none".
struct Pat {
  std::array<PatNode, kPatNodes> nodes{};
  std::uint8_t size = 0;

  constexpr Pat() = default;
  constexpr Pat(int literal) {  // NOLINT: `x + 0` reads as algebra
    nodes[0].kind = PatKind::Literal;
    nodes[0].literal = literal;
    size = 1;
  }
  constexpr bool empty() const { return size == 0; }
  constexpr const PatNode& root() const { return nodes[size - 1]; }

  constexpr std::uint8_t append(const Pat& other) {
    std::uint8_t base = size;
    for (int i = 0; i < other.size; ++i) {
      PatNode n = other.nodes[static_cast<std::size_t>(i)];
      for (int a = 0; a < n.args && n.args != kAnyArgs; ++a)
        n.arg[static_cast<std::size_t>(a)] =
            static_cast<std::uint8_t>(n.arg[static_cast<std::size_t>(a)] + base);
      nodes.at(size++) = n;  // too large a pattern is a compile error
    }
    return static_cast<std::uint8_t>(size - 1);
  }
};

constexpr Pat slot_pattern(PatKind kind, int slot) {
  Pat p;
  p.nodes[0].kind = kind;
  p.nodes[0].slot = static_cast<std::uint8_t>(slot);
  p.size = 1;
  return p;
}
constexpr Pat any(int slot) { return slot_pattern(PatKind::Any, slot); }
constexpr Pat any_const(int slot) { return slot_pattern(PatKind::Const, slot); }
// In `when`: bounds of the node a slot matched.
constexpr Pat lo(const Pat& x) { return slot_pattern(PatKind::Lo, x.nodes[0].slot); }
constexpr Pat hi(const Pat& x) { return slot_pattern(PatKind::Hi, x.nodes[0].slot); }

constexpr Pat make(Op op, const Pat& x) {
  Pat p;
  PatNode n;
  n.kind = PatKind::Apply;
  n.op = op;
  n.args = 1;
  n.arg = {p.append(x), 0, 0};
  p.nodes.at(p.size++) = n;
  return p;
}
constexpr Pat make(Op op, const Pat& x, const Pat& y) {
  Pat p;
  PatNode n;
  n.kind = PatKind::Apply;
  n.op = op;
  n.args = 2;
  n.arg[0] = p.append(x);
  n.arg[1] = p.append(y);
  p.nodes.at(p.size++) = n;
  return p;
}
constexpr Pat make(Op op, const Pat& x, const Pat& y, const Pat& z) {
  Pat p;
  PatNode n;
  n.kind = PatKind::Apply;
  n.op = op;
  n.args = 3;
  n.arg[0] = p.append(x);
  n.arg[1] = p.append(y);
  n.arg[2] = p.append(z);
  p.nodes.at(p.size++) = n;
  return p;
}

// Any node of this op; what it holds is the row's function's business.
constexpr Pat node_of(Op op) {
  Pat p;
  p.nodes[0].kind = PatKind::Apply;
  p.nodes[0].op = op;
  p.nodes[0].args = kAnyArgs;
  p.size = 1;
  return p;
}

constexpr Pat operator+(const Pat& x, const Pat& y) { return make(Op::Add, x, y); }
constexpr Pat operator*(const Pat& x, const Pat& y) { return make(Op::Mul, x, y); }
constexpr Pat operator/(const Pat& x, const Pat& y) { return make(Op::FloorDiv, x, y); }
constexpr Pat operator%(const Pat& x, const Pat& y) { return make(Op::FloorMod, x, y); }
constexpr Pat operator-(const Pat& x) { return make(Op::Mul, x, Pat(-1)); }
constexpr Pat operator-(const Pat& x, const Pat& y) { return make(Op::Add, x, -y); }
constexpr Pat operator<(const Pat& x, const Pat& y) { return make(Op::Less, x, y); }
constexpr Pat operator<=(const Pat& x, const Pat& y) { return make(Op::Less, x, make(Op::Add, y, Pat(1))); }
constexpr Pat operator==(const Pat& x, const Pat& y) { return make(Op::Eq, x, y); }
constexpr Pat operator!=(const Pat& x, const Pat& y) { return make(Op::Ne, x, y); }
constexpr Pat operator&&(const Pat& x, const Pat& y) { return make(Op::And, x, y); }
constexpr Pat operator||(const Pat& x, const Pat& y) { return make(Op::Or, x, y); }
constexpr Pat operator!(const Pat& x) { return make(Op::Not, x); }
constexpr Pat max(const Pat& x, const Pat& y) { return make(Op::Max, x, y); }
constexpr Pat min(const Pat& x, const Pat& y) { return make(Op::Min, x, y); }
constexpr Pat where(const Pat& c, const Pat& x, const Pat& y) { return make(Op::Where, c, x, y); }

std::string to_string(const Pat& pattern);

}  // namespace lathe
