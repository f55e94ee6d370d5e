#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "ir/value.h"
#include "lathe/size_compare.h"
#include "tensor/impl.h"

namespace lathe {

Size::Size(std::shared_ptr<const SizeExpr> expr) : expr_(std::move(expr)) {
  if (expr_->node->is_const()) {
    value_ = expr_->node->const_int();
    expr_ = nullptr;
  }
}

std::int64_t Size::value() const {
  if (!expr_) return value_;
  throw UserError("size", fmt::format("{} is symbolic where a plain number is needed", str()))
      .help("bound_value() gives the number under the bound variables");
}

namespace {

bool enters_size(Node n) { return !n.is(Op::Bind); }

// The value of an index expression under the Binds it holds.
std::int64_t evaluate_bound(Node root) {
  NodeMap<std::int64_t> values;
  for (Node n : toposort(std::span<const Node>(&root, 1), enters_size)) {
    if (n.is_const()) {
      values[n] = n.const_int();
    } else if (n.is(Op::Bind)) {
      values[n] = n.arg(1).const_int();
    } else if (n.is(Op::Var)) {
      throw UserError("size", fmt::format("variable {} has no value", n.text()))
          .help(fmt::format("bind it: {}.bind(value)", n.text()));
    } else {
      Element a[3];
      for (std::size_t i = 0; i < n.arg_count(); ++i) a[i] = {*values.find(n.arg(i)), 0};
      values[n] = evaluate(n.op(), n.arg(0).dtype(), a[0], a[1], a[2]).i;
    }
  }
  return *values.find(root);
}

}  // namespace

std::int64_t Size::bound_value() const { return expr_ ? evaluate_bound(expr_->node) : value_; }
std::int64_t Size::max() const { return expr_ ? expr_->node->hi() : value_; }
std::string Size::str() const { return expr_ ? index_text(expr_->node) : fmt::format("{}", value_); }

bool operator==(const Size& a, const Size& b) {
  if (!a.is_symbolic() && !b.is_symbolic()) return a.value() == b.value();
  return a.is_symbolic() && b.is_symbolic() && a.expr()->node == b.expr()->node;
}

namespace {

// Products of what is no sum or product itself, each in one order, with their factors.
using Polynomial = std::map<std::vector<Node>, std::int64_t, decltype([](const auto& a, const auto& b) {
                              return std::lexicographical_compare(
                                  a.begin(), a.end(), b.begin(), b.end(),
                                  [](Node x, Node y) { return std::less<>()(x.get(), y.get()); });
                            })>;
constexpr std::size_t kMostTerms = 256;

std::optional<Polynomial> product(const Polynomial& a, const Polynomial& b) {
  Polynomial out;
  for (const auto& [x, factor] : a)
    for (const auto& [y, other] : b) {
      std::vector<Node> all = x;
      all.insert(all.end(), y.begin(), y.end());
      std::sort(all.begin(), all.end(), [](Node p, Node q) { return std::less<>()(p.get(), q.get()); });
      out[all] += factor * other;
      if (out.size() > kMostTerms) return std::nullopt;
    }
  return out;
}

// Nothing where it would have too many terms.
std::optional<Polynomial> polynomial(Node n) {
  if (n.is_const()) return Polynomial{{{}, n.const_int()}};
  if (!n.is(Op::Add) && !n.is(Op::Mul)) return Polynomial{{{n}, 1}};
  std::optional<Polynomial> x = polynomial(n.arg(0)), y = polynomial(n.arg(1));
  if (!x || !y) return std::nullopt;
  if (n.is(Op::Mul)) return product(*x, *y);
  for (const auto& [term, factor] : *y) (*x)[term] += factor;
  return x->size() > kMostTerms ? std::nullopt : x;
}

// The constant or the one node that it is; null where it is a sum or a product.
Node simple_form(const Polynomial& p) {
  Node out = index_const(0);
  bool found = false;
  for (const auto& [term, factor] : p) {
    if (factor == 0) continue;
    if (found || term.size() > 1 || (term.size() == 1 && factor != 1)) return Node();
    out = term.empty() ? index_const(factor) : term[0];
    found = true;
  }
  return out;
}

// The quotient where what divides is a constant or one node, and is a factor of everything but a constant
// that is smaller: of 2*n + 1 by 2, of n*n - 1 by n. Nothing where it is not known.
std::optional<Polynomial> quotient(const Polynomial& dividend, Node divisor) {
  // What is bound may be bound to something else the next time.
  const Node variable = divisor.is(Op::Bind) ? divisor.arg(0) : divisor;
  const std::int64_t least = variable.lo();
  if (least < 1 || !(divisor.is_const() || variable.is(Op::Var))) return std::nullopt;
  Polynomial out;
  std::int64_t rest = 0;
  for (const auto& [term, factor] : dividend) {
    if (factor == 0) continue;
    if (term.empty()) {
      rest = factor;
    } else if (divisor.is_const()) {
      if (factor % least != 0) return std::nullopt;
      out[term] += factor / least;
    } else {
      std::vector<Node> others = term;
      const auto at = std::find(others.begin(), others.end(), divisor);
      if (at == others.end()) return std::nullopt;
      others.erase(at);
      out[others] += factor;
    }
  }
  if (divisor.is_const())
    out[{}] += value::floor_div(rest, least);
  else if (rest < -least || rest >= least)
    return std::nullopt;
  else
    out[{}] += rest < 0 ? -1 : 0;
  return out;
}

// Sizes that come out as one node, or as a number, are that: others are compared with them.
Size combine(Op op, const Size& a, const Size& b) {
  Scope scope;
  const Node x = size_node(a), y = size_node(b);
  if ((op == Op::FloorDiv || op == Op::FloorMod) && y.is_const_int(0))
    throw UserError("size", fmt::format("{} is divided by zero", a.str()));
  const Node plain = apply(op, x, y);
  if (plain.is_const() || op == Op::FloorMod) return size_of(plain);
  std::optional<Polynomial> value = polynomial(op == Op::FloorDiv ? x : plain);
  if (value && op == Op::FloorDiv) value = quotient(*value, y);
  const Node simple = value ? simple_form(*value) : Node();
  return size_of(simple ? simple : plain);
}

}  // namespace

bool always_equal(const Size& a, const Size& b) {
  if (a == b) return true;
  const Scope scope;
  std::optional<Polynomial> x = polynomial(size_node(a)), y = polynomial(size_node(b));
  if (!x || !y) return false;
  for (const auto& [term, factor] : *y) (*x)[term] -= factor;
  return std::all_of(x->begin(), x->end(), [](const auto& term) { return term.second == 0; });
}

Size operator+(const Size& a, const Size& b) { return combine(Op::Add, a, b); }
Size operator-(const Size& a, const Size& b) { return a + b * Size(-1); }
Size operator*(const Size& a, const Size& b) { return combine(Op::Mul, a, b); }
Size operator/(const Size& a, const Size& b) { return combine(Op::FloorDiv, a, b); }
Size operator%(const Size& a, const Size& b) { return combine(Op::FloorMod, a, b); }

std::string to_string(const Shape& shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? ", " : "") + shape[i].str();
  return out + (shape.size() == 1 ? ",)" : ")");
}

Variable::Variable(std::string_view name, std::int64_t min, std::int64_t max)
    : name_(name), min_(min), max_(max) {
  if (min > max) throw UserError("variable", fmt::format("{} has an empty range [{}, {}]", name, min, max));
}

Size Variable::size() const {
  Scope scope;
  return size_of(variable(name_, min_, max_));
}

Size Variable::bind(std::int64_t value) const {
  if (value < min_ || value > max_)
    throw UserError("bind",
                    fmt::format("{} is outside the range [{}, {}] of variable {}", value, min_, max_, name_));
  Scope scope;
  return size_of(intern(Op::Bind, dtypes::Index, {variable(name_, min_, max_), index_const(value)}));
}

Node size_node(const Size& size) {
  return size.is_symbolic() ? size.expr()->node.node() : index_const(size.value());
}

Size size_of(Node node) {
  if (node.is_const()) return node.const_int();
  return Size(std::make_shared<const SizeExpr>(SizeExpr{node}));
}

Nodes size_nodes(const Shape& shape) {
  Nodes out;
  for (const Size& s : shape) out.push_back(size_node(s));
  return out;
}

Shape shape_of_nodes(std::span<const Node> sizes) {
  Shape out;
  out.reserve(sizes.size());
  for (Node s : sizes) out.push_back(size_of(s));
  return out;
}

namespace {

struct Factors {
  std::int64_t number = 1;
  std::vector<Node> symbols;  // ordered by structural key
};

Factors factors_of(std::span<const Node> sizes) {
  Factors f;
  std::vector<Node> pending(sizes.begin(), sizes.end());
  while (!pending.empty()) {
    Node n = pending.back();
    pending.pop_back();
    if (n.is_const()) {
      if (__builtin_mul_overflow(f.number, n.const_int(), &f.number))
        throw UserError("shape", "the number of elements of " + shape_text(sizes) + " does not fit 64 bits");
    } else if (n.is(Op::Mul)) {
      pending.push_back(n.arg(0));
      pending.push_back(n.arg(1));
    } else {
      f.symbols.push_back(n);
    }
  }
  std::sort(f.symbols.begin(), f.symbols.end(), [](Node a, Node b) { return a.key() < b.key(); });
  return f;
}

Node product(const Factors& f) {
  if (f.number == 0) return index_const(0);
  Node out;
  for (Node s : f.symbols) out = out ? out * s : s;
  return out ? out * index_const(f.number) : index_const(f.number);
}

}  // namespace

Node size_product(std::span<const Node> sizes) { return product(factors_of(sizes)); }

std::optional<Node> exact_quotient(std::span<const Node> total, std::span<const Node> known) {
  Factors top = factors_of(total), bottom = factors_of(known);
  for (Node s : bottom.symbols) {
    auto at = std::find(top.symbols.begin(), top.symbols.end(), s);
    if (at == top.symbols.end()) return std::nullopt;
    top.symbols.erase(at);
  }
  if (bottom.number == 0 || top.number % bottom.number != 0) return std::nullopt;
  top.number /= bottom.number;
  return product(top);
}

}  // namespace lathe
