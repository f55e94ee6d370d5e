// Index algebra: exact integers, `/` and `%` are floor. Every law holds for all signs unless its comment says
// otherwise.
#include <numeric>

#include "ir/build.h"
#include "ir/ranges.h"
#include "rules/linear.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

constexpr Pat x = any(0), y = any(1), c0 = any_const(2), c1 = any_const(3);

bool is_index(Node n) { return n.dtype() == dtypes::Index; }

// Sums and constant multiples: one Linear, however deep.
bool is_linear(Node n) { return is_index(n) && (n.is(Op::Add) || (n.is(Op::Mul) && n.arg(1).is_const())); }

// (x/c)*c*d + (x%c)*d == x*d, for terms of a sum.
bool join_divmod(Linear& sum) {
  for (const Term& mod : sum.terms) {
    if (!mod.node.is(Op::FloorMod) || !mod.node.arg(1).is_const()) continue;
    Node base = mod.node.arg(0);
    std::int64_t c = mod.node.arg(1).int_attr();
    for (const Term& div : sum.terms) {
      std::int64_t want;
      if (__builtin_mul_overflow(mod.coefficient, c, &want) || div.coefficient != want) continue;
      Node q = div.node;
      // (x/c) itself, or ((x/c) % d): then x % c joins to x % (c*d).
      Node quotient = q.is(Op::FloorMod) && q.arg(1).is_const() ? q.arg(0) : q;
      bool same = quotient == floor_div(base, mod.node.arg(1));
      if (!same && quotient.is(Op::FloorDiv) && base.is(Op::FloorDiv) && base.arg(1).is_const() &&
          quotient.arg(1).is_const())
        // x/(a*c) beside (x/a)%c
        same = quotient.arg(0) == base.arg(0) && quotient.arg(1).int_attr() == base.arg(1).int_attr() * c;
      if (!same) continue;
      Node joined = q == quotient ? base : floor_mod(base, index_const(c * q.arg(1).int_attr()));
      std::int64_t coefficient = mod.coefficient;
      Node mod_node = mod.node;
      sum.add_term(q, -want);
      sum.add_term(mod_node, -coefficient);
      sum.add(joined, coefficient);
      return true;
    }
  }
  return false;
}

// Whether some term of a normal sum is (a multiple of) a remainder by a constant: what join_divmod starts
// from.
bool has_remainder(Node sum) {
  for (;; sum = sum.arg(0)) {
    Node term = sum.is(Op::Add) ? sum.arg(1) : sum;
    if (term.is(Op::Mul) && term.arg(1).is_const()) term = term.arg(0);
    if (term.is(Op::FloorMod)) return true;
    if (!sum.is(Op::Add)) return false;
  }
}

// A sum of terms in canonical order, like terms combined, quotient and remainder of one value joined.
Node normal_sum(Node node, const Bindings&, Rewriter& rewriter) {
  if (is_normal_sum(node) && !has_remainder(node)) return Node();
  Linear sum = linear(node);
  bool joined = false;
  while (join_divmod(sum)) joined = true;
  if (!joined) return sum.build();
  // What joined may simplify further.
  Linear again;
  again.constant = sum.constant;
  for (const Term& t : sum.terms) again.add(rewriter.simplify(t.node), t.coefficient);
  return again.build();
}

// (x + y)*c == x*c + y*c.
Node distribute(Node node, const Bindings&, Rewriter&) {
  if (!node.arg(0).is(Op::Add) && !(node.arg(0).is(Op::Mul) && node.arg(0).arg(1).is_const())) return Node();
  return linear(node).build();
}

// Parts of `sum` whose coefficients are multiples of g, divided by g; the rest stays in `sum`.
Linear take_multiples(Linear& sum, std::int64_t g) {
  Linear out, rest;
  for (const Term& t : sum.terms)
    if (t.coefficient % g == 0)
      out.terms.push_back({t.node, t.coefficient / g, Node()});
    else
      rest.terms.push_back(t);
  std::int64_t q = value::floor_div(sum.constant, g);
  out.constant = q;
  rest.constant = sum.constant - q * g;
  sum = rest;
  return out;
}

// With c > 0:
//   (c*q + r)/c == q + r/c, and r/c == 0 where 0 <= r < c
//   (g*a + r)/(g*b) == (a + r/g)/b, so == a/b where 0 <= r < g
Node fold_div(Node node, const Bindings& bound, Rewriter& rewriter) {
  std::int64_t c = bound[2].int_attr();
  Linear rest = linear(node.arg(0));
  Linear whole = take_multiples(rest, c);
  if (rest.lo() >= 0 && rest.hi() < c) return whole.build();
  if (!whole.terms.empty() || whole.constant != 0) {
    whole.add(rewriter.apply(Op::FloorDiv, rest.build(), bound[2]));
    return whole.build();
  }
  // Factor out of what is left: each common factor of some coefficients with c is a candidate g.
  for (const Term& t : rest.terms) {
    std::int64_t g = std::gcd(t.coefficient, c);
    if (g <= 1) continue;
    Linear small = rest;
    Linear large = take_multiples(small, g);
    if (small.lo() >= 0 && small.hi() < g)
      return rewriter.apply(Op::FloorDiv, rewriter.simplify(large.build()), index_const(c / g));
  }
  return Node();
}

// With c > 0:
//   (c*q + r) % c == r % c, and == r where 0 <= r < c
//   (g*a + r) % (g*b) == (a % b)*g + r where 0 <= r < g
//   a coefficient k may be replaced by k - c where that makes the whole fit [0, c)
Node fold_mod(Node node, const Bindings& bound, Rewriter& rewriter) {
  std::int64_t c = bound[2].int_attr();
  Linear rest = linear(node.arg(0));
  Linear whole = take_multiples(rest, c);
  if (rest.lo() >= 0 && rest.hi() < c) return rest.build();
  if (!whole.terms.empty() || whole.constant != 0)
    return rewriter.apply(Op::FloorMod, rest.build(), bound[2]);
  for (const Term& t : rest.terms) {
    std::int64_t g = std::gcd(t.coefficient, c);
    if (g <= 1) continue;
    Linear small = rest;
    Linear large = take_multiples(small, g);
    if (small.lo() >= 0 && small.hi() < g) {
      Linear out = small;
      out.add(rewriter.apply(Op::FloorMod, rewriter.simplify(large.build()), index_const(c / g)), g);
      return out.build();
    }
  }
  bool reduced = false;
  Linear lower = rest;
  for (Term& t : lower.terms)
    if (t.coefficient > c || t.coefficient < -c) {
      t = {t.node, t.coefficient % c, Node()};
      reduced = true;
    }
  if (reduced) return rewriter.apply(Op::FloorMod, lower.build(), bound[2]);
  // The whole is in one period: x % c == x - (lo/c)*c.
  std::int64_t q = value::floor_div(rest.lo(), c);
  if (q == value::floor_div(rest.hi(), c)) {
    rest.constant -= q * c;
    return rest.build();
  }
  return Node();
}

// The whole quotient is known from the bounds: lo/c == hi/c.
Node div_by_bounds(Node node, const Bindings& bound, Rewriter&) {
  std::int64_t c = bound[2].int_attr();
  std::int64_t q = value::floor_div(node.arg(0).lo(), c);
  return q == value::floor_div(node.arg(0).hi(), c) ? index_const(q) : Node();
}

// clang-format off
constexpr Rule kIndexAlgebra[] = {
    // name             from                      to                          when
    {"sum-normal",      x + y,                    by(normal_sum)},
    {"mul-mul",         (x * c0) * c1,            x * (c0 * c1)},
    {"mul-sum",         x * c0,                   by(distribute)},
    {"div-by-bounds",   x / c0,                   by(div_by_bounds),              0 < c0},
    {"div-div",         (x / c0) / c1,            x / (c0 * c1),              0 < c0 && 0 < c1},
    {"div-mod",         (x % c0) / c1,            (x / c1) % (c0 / c1),       0 < c1 && 0 < c0 && c0 % c1 == 0},
    {"div-sum",         x / c0,                   by(fold_div),                   0 < c0},
    {"mod-one",         x % 1,                    0},
    {"mod-mod",         (x % c0) % c1,            x % c1,                     0 < c1 && 0 < c0 && c0 % c1 == 0},
    {"mod-sum",         x % c0,                   by(fold_mod),                   0 < c0},
    {"div-self",        x / x,                    1,                          0 < lo(x)},
    {"mod-self",        x % x,                    0},
    {"div-small",       x / y,                    0,                          0 <= lo(x) && hi(x) < lo(y)},
    {"mod-small",       x % y,                    x,                          0 <= lo(x) && hi(x) < lo(y)},
    {"div-cancel",      (x * y) / y,              x,                          0 < lo(y)},
    {"mod-cancel",      (x * y) % y,              0},
    {"max-left",        max(x, y),                x,                          hi(y) <= lo(x)},
    {"max-right",       max(x, y),                y,                          hi(x) <= lo(y)},
    {"min-left",        min(x, y),                x,                          hi(x) <= lo(y)},
    {"min-right",       min(x, y),                y,                          hi(y) <= lo(x)},
};
// clang-format on
static_assert(well_formed(kIndexAlgebra));

// ---- comparisons of indices

// Both sides to one: terms left, constant right, common factors divided out.
//   g*a + r < c  ==  a < ceil((c - r)/g), exact where 0 <= r < g and c % g == 0, or r == 0
Node normal_less(Node node, const Bindings&, Rewriter& rewriter) {
  Linear left = linear(node.arg(0));
  Linear right = linear(node.arg(1));
  for (const Term& t : right.terms) left.add_term(t.node, -t.coefficient);
  std::int64_t c = right.constant - left.constant;
  left.constant = 0;
  if (left.terms.empty()) return bool_const(0 < c);
  if (left.hi() < c) return bool_const(true);
  if (left.lo() >= c) return bool_const(false);
  std::int64_t g = 0;
  for (const Term& t : left.terms) g = std::gcd(g, t.coefficient);
  if (g > 1) {  // every term is a multiple: g*a < c == a < ceil(c/g)
    for (Term& t : left.terms) t = {t.node, t.coefficient / g, Node()};
    c = -value::floor_div(-c, g);
  }
  // Terms too small to matter: g*a + r < g*q == a < q where 0 <= r < g. Try each coefficient of c as g.
  for (const Term& t : left.terms) {
    std::int64_t f = t.coefficient < 0 ? -t.coefficient : t.coefficient;
    if (f <= 1 || c % f != 0) continue;
    Linear small = left;
    Linear large = take_multiples(small, f);
    if (small.lo() >= 0 && small.hi() < f) {
      left = large;
      c /= f;
      break;
    }
  }
  // -x < c == not (x < -c + 1): a single negative term is turned round by the caller's logic rules.
  if (left.terms.size() == 1 && left.terms[0].coefficient == -1) {
    Node positive = left.terms[0].node;
    return logical_not(rewriter.apply(Op::Less, positive, index_const(1 - c)));
  }
  return less(left.build(), index_const(c));
}

// clang-format off
constexpr Rule kCompareAlgebra[] = {
    // name             from                      to                          when
    {"less-div",        x / c0 < c1,              x < c0 * c1,                0 < c0},
    {"less-normal",     x < y,                    by(normal_less)},
    {"eq-apart",        x == y,                   0,                          hi(x) < lo(y) || hi(y) < lo(x)},
    {"ne-apart",        x != y,                   1,                          hi(x) < lo(y) || hi(y) < lo(x)},
    {"eq-shift",        x + c0 == c1,             x == c1 - c0},
    {"ne-shift",        x + c0 != c1,             x != c1 - c0},
    {"eq-scale",        x * c0 == c1,             x == c1 / c0,               c0 != 0 && c1 % c0 == 0},
    {"eq-scale-not",    x * c0 == c1,             0,                          c0 != 0 && c1 % c0 != 0},
    {"eq-self",         x == x,                   1},
    {"ne-self",         x != x,                   0},
};
// clang-format on
static_assert(well_formed(kCompareAlgebra));

bool compares_index(Node n) { return n.arg(0).dtype() == dtypes::Index; }

}  // namespace

RuleTable index_algebra() { return {"index-algebra", kIndexAlgebra, is_index, is_linear}; }
RuleTable compare_algebra() { return {"compare-algebra", kCompareAlgebra, compares_index}; }

}  // namespace lathe
