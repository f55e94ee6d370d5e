#include "rules/linear.h"

#include <algorithm>
#include <limits>

#include "ir/build.h"

namespace lathe {
namespace {

std::int64_t clamp(__int128 v) {
  constexpr __int128 low = std::numeric_limits<std::int64_t>::min(),
                     high = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::clamp(v, low, high));
}

}  // namespace

void Linear::add_term(Node node, std::int64_t coefficient) {
  if (coefficient == 0) return;
  // Keys are unique but for buffers of equal structure, whose loads then stand side by side in the order met.
  auto at = std::find_if(terms.begin(), terms.end(), [&](const Term& t) { return t.node == node; });
  if (at != terms.end()) {
    at->coefficient += coefficient;
    if (at->coefficient == 0) terms.erase(at);
    return;
  }
  auto place =
      std::find_if(terms.begin(), terms.end(), [&](const Term& t) { return t.node.key() > node.key(); });
  terms.insert(place, Term{node, coefficient});
}

void Linear::add(Node node, std::int64_t coefficient) {
  struct Part {
    Node node;
    std::int64_t coefficient;
  };
  SmallVector<Part, 16> stack;
  stack.push_back({node, coefficient});
  while (!stack.empty()) {
    Part part = stack.back();
    stack.pop_back();
    Node n = part.node;
    if (n.is_const())
      constant += part.coefficient * n.int_attr();
    else if (n.is(Op::Add)) {
      stack.push_back({n.arg(1), part.coefficient});
      stack.push_back({n.arg(0), part.coefficient});
    } else if (n.is(Op::Mul) && n.arg(1).is_const()) {
      stack.push_back({n.arg(0), part.coefficient * n.arg(1).int_attr()});
    } else {
      add_term(n, part.coefficient);
    }
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
    plus(t.coefficient == 1 ? t.node : intern(Op::Mul, dtypes::Index, {t.node, index_const(t.coefficient)}));
  if (constant != 0 || !sum) plus(index_const(constant));
  return sum;
}

Linear linear(Node node) {
  Linear out;
  out.add(node);
  return out;
}

}  // namespace lathe
