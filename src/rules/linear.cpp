#include "rules/linear.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "ir/build.h"

namespace lathe {
namespace {

std::int64_t clamp(__int128 v) {
  constexpr __int128 low = std::numeric_limits<std::int64_t>::min(),
                     high = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::clamp(v, low, high));
}

}  // namespace

void Linear::add_term(Node node, std::int64_t coefficient, Node product) {
  if (coefficient == 0) return;
  // Keys are unique but for buffers of equal structure, whose loads then are side by side in the order met.
  std::uint64_t key = node.key();
  auto at = terms.begin();
  if (terms.size() > 16)
    at = std::lower_bound(terms.begin(), terms.end(), key,
                          [](const Term& t, std::uint64_t k) { return t.node.key() < k; });
  for (; at != terms.end() && at->node.key() <= key; ++at) {
    if (at->node != node) continue;
    at->coefficient += coefficient;
    at->product = Node();
    if (at->coefficient == 0) terms.erase(at);
    return;
  }
  terms.insert(at, Term{node, coefficient, product});
}

void Linear::add(Node node, std::int64_t coefficient) {
  struct Part {
    Node node;
    std::int64_t coefficient;
  };
  SmallVector<Part, 16> stack;
  Part part{node, coefficient};
  for (;;) {
    Node n = part.node;
    if (n.is(Op::Add)) {
      stack.push_back({n.arg(1), part.coefficient});
      part.node = n.arg(0);
      continue;
    }
    if (n.is_const()) {
      constant += part.coefficient * n.int_attr();
    } else if (n.is(Op::Mul) && n.arg(1).is_const()) {
      Node x = n.arg(0);
      std::int64_t c = n.arg(1).int_attr();
      if (x.is(Op::Add) || x.is(Op::Mul) || x.is_const()) {
        part = {x, part.coefficient * c};
        continue;
      }
      add_term(x, part.coefficient * c, part.coefficient == 1 ? n : Node());
    } else {
      add_term(n, part.coefficient);
    }
    if (stack.empty()) return;
    part = stack.back();
    stack.pop_back();
  }
}

std::int64_t Linear::lo() const {
  __int128 v = constant;
  for (const Term& t : terms) v += __int128(t.coefficient) * (t.coefficient > 0 ? t.node.lo() : t.node.hi());
  return clamp(v);
}
std::int64_t Linear::hi() const {
  __int128 v = constant;
  for (const Term& t : terms) v += __int128(t.coefficient) * (t.coefficient > 0 ? t.node.hi() : t.node.lo());
  return clamp(v);
}

Node Linear::build() const {
  Node sum;
  auto plus = [&](Node n) { sum = sum ? intern(Op::Add, dtypes::Index, {sum, n}) : n; };
  for (const Term& t : terms)
    plus(t.coefficient == 1 ? t.node
         : t.product        ? t.product
                            : intern(Op::Mul, dtypes::Index, {t.node, index_const(t.coefficient)}));
  if (constant != 0 || !sum) plus(index_const(constant));
  return sum;
}

Linear linear(Node node) {
  Linear out;
  out.add(node);
  return out;
}

bool is_normal_sum(Node node) {
  // From the right: an optional constant that is not 0, then terms of falling key.
  bool last = true;
  std::uint64_t above = 0;
  for (;; last = false) {
    bool more = node.is(Op::Add);
    Node part = more ? node.arg(1) : node;
    if (part.is_const()) {
      if (!last || !more || part.int_attr() == 0) return !more && last;
      node = node.arg(0);
      continue;
    }
    Node term = part;
    if (part.is(Op::Mul) && part.arg(1).is_const()) {
      term = part.arg(0);
      std::int64_t c = part.arg(1).int_attr();
      if (c == 0 || c == 1 || term.is_const() || (term.is(Op::Mul) && term.arg(1).is_const())) return false;
    }
    if (term.is(Op::Add)) return false;
    if (above != 0 && term.key() >= above) return false;
    above = term.key();
    if (!more) return true;
    node = node.arg(0);
  }
}

std::int64_t known_divisor(Node n) {
  if (n.is_const()) return n.int_attr() < 0 ? -n.int_attr() : n.int_attr();
  if (n.is(Op::Add)) return std::gcd(known_divisor(n.arg(0)), known_divisor(n.arg(1)));
  if (n.is(Op::Mul) && n.arg(1).is_const()) return known_divisor(n.arg(0)) * known_divisor(n.arg(1));
  return 1;
}

// Sums of multiples and products with a multiple; enough for the indices that vectors are at.
bool is_multiple(Node index, std::int64_t n) {
  std::vector<Node> open{index};
  for (std::size_t steps = 0; !open.empty(); ++steps) {
    if (steps > 256) return false;
    Node node = open.back();
    open.pop_back();
    if (n == 1) continue;
    if (node.is_const()) {
      if (node.int_attr() % n != 0) return false;
    } else if (node.is(Op::Add) || node.is(Op::Sub)) {
      open.push_back(node.arg(0));
      open.push_back(node.arg(1));
    } else if (node.is(Op::Mul) && node.arg(1).is_const()) {
      if (node.arg(1).int_attr() % n != 0) return false;
    } else if (node.is(Op::Shl) && node.arg(1).is_const() && node.arg(1).int_attr() < 62) {
      if ((std::int64_t{1} << node.arg(1).int_attr()) % n != 0) return false;
    } else if (node.is(Op::Cast) && node.dtype().is_int() && node.arg(0).dtype().is_int()) {
      open.push_back(node.arg(0));
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace lathe
