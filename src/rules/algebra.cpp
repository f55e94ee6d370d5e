// Logic, integers with wrap-around, floats, and folding of constants and known bounds.
#include "ir/build.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

constexpr Pat x = any(0), y = any(1), z = any(2), p = any(3), q = any(4), c0 = any_const(5),
              c1 = any_const(6);

// (x + c) + y == (x + y) + c. Of two constants neither goes further out: they become one.
Node constant_out(Node, const Bindings& bound, Rewriter& rewriter) {
  if (bound[1].is_const()) return Node();
  return rewriter.apply(Op::Add, rewriter.apply(Op::Add, bound[0], bound[1]), bound[5]);
}

// clang-format off
constexpr Rule kLogic[] = {
    // name              from                                to                      when
    {"and-true",         p && 1,                             p},
    {"and-false",        p && 0,                             0},
    {"and-self",         p && p,                             p},
    {"and-absorb",       (p && q) && p,                      p && q},
    {"and-not",          p && !p,                            0},
    {"or-true",          p || 1,                             1},
    {"or-false",         p || 0,                             p},
    {"or-self",          p || p,                             p},
    {"or-not",           p || !p,                            1},
    {"not-not",          !!p,                                p},
    {"eq-true",          p == 1,                             p},
    {"eq-false",         p == 0,                             !p},
    {"ne-true",          p != 1,                             !p},
    {"ne-false",         p != 0,                             p},
    {"xor-false",        make(Op::Xor, p, Pat(0)),           p},
    {"xor-true",         make(Op::Xor, p, Pat(1)),           !p},
    {"bool-add",         p + q,                              p || q},
    {"bool-mul",         p * q,                              p && q},
    {"bool-max",         max(p, q),                          p || q},
    {"bool-min",         min(p, q),                          p && q},
    {"where-bool",       where(p, Pat(1), Pat(0)),           p},
    {"where-bool-not",   where(p, Pat(0), Pat(1)),           !p},
};

// True under wrap-around, so for every integer dtype.
constexpr Rule kInteger[] = {
    {"add-zero",         x + 0,                              x},
    {"mul-one",          x * 1,                              x},
    {"mul-zero",         x * 0,                              0},
    {"add-consts",       (x + c0) + c1,                      x + (c0 + c1)},
    {"add-const-out",    (x + c0) + y,                       by(constant_out)},
    {"mul-consts",       (x * c0) * c1,                      x * (c0 * c1)},
    {"sub-self",         x - x,                              0},
    {"and-same",         make(Op::And, x, x),                x},
    {"or-same",          make(Op::Or, x, x),                 x},
    {"and-zero",         make(Op::And, x, Pat(0)),           0},
    {"or-zero",          make(Op::Or, x, Pat(0)),            x},
    {"xor-zero",         make(Op::Xor, x, Pat(0)),           x},
    {"xor-same",         make(Op::Xor, x, x),                0},
    {"shl-zero",         make(Op::Shl, x, Pat(0)),           x},
    {"shr-zero",         make(Op::Shr, x, Pat(0)),           x},
    {"div-one",          x / 1,                              x},
    {"mod-one",          x % 1,                              0},
    {"trunc-div-one",    make(Op::TruncDiv, x, Pat(1)),      x},
    {"trunc-mod-one",    make(Op::TruncMod, x, Pat(1)),      0},
    {"not-not-int",      !!x,                                x},
    {"max-same",         max(x, x),                          x},
    {"min-same",         min(x, x),                          x},
    {"where-same",       where(p, x, x),                     x},
    {"where-true",       where(Pat(1), x, y),                x},
    {"where-false",      where(Pat(0), x, y),                y},
    {"where-not",        where(!p, x, y),                    where(p, y, x)},
    {"where-where",      where(p, where(p, x, y), z),        where(p, x, z)},
    {"where-inner",      where(p, where(q, x, y), y),        where(p && q, x, y)},
};

// Kept exactly: NaN, infinities, signed zeros. So x + 0, x * 0 and x - x stay.
constexpr Rule kFloat[] = {
    {"mul-one",          x * 1,                              x},
    {"div-one",          make(Op::Div, x, Pat(1)),           x},
    {"neg-neg",          make(Op::Neg, make(Op::Neg, x)),    x},
    {"mul-minus-one",    x * -1,                             make(Op::Neg, x)},
    {"max-same",         max(x, x),                          x},
    {"min-same",         min(x, x),                          x},
    {"where-same",       where(p, x, x),                     x},
    {"where-true",       where(Pat(1), x, y),                x},
    {"where-false",      where(Pat(0), x, y),                y},
    {"where-not",        where(!p, x, y),                    where(p, y, x)},
    {"where-where",      where(p, where(p, x, y), z),        where(p, x, z)},
    {"where-inner",      where(p, where(q, x, y), y),        where(p && q, x, y)},
};
// clang-format on
static_assert(well_formed(kLogic) && well_formed(kInteger) && well_formed(kFloat));

bool on_bool(Node n) { return n.dtype() == dtypes::Bool && n.arg(n.arg_count() - 1).dtype().is_bool(); }
bool on_integer(Node n) {
  return n.dtype().lanes == 1 && (n.dtype().is_int() || n.dtype().is_bool()) &&
         n.arg(n.arg_count() - 1).dtype() == n.dtype();
}
bool on_float(Node n) { return n.dtype().lanes == 1 && n.dtype().is_float(); }

// Ops that IEEE arithmetic rounds correctly: folding them gives what every device gives.
bool exact(Op op) {
  switch (op) {
    case Op::Exp2:
    case Op::Log2:
    case Op::Sin:
    case Op::Cos: return false;
    default: return true;
  }
}

Node fold_constants(Node node, const Bindings&, Rewriter&) {
  if (node.dtype().lanes > 1) return Node();
  // An integer or bool whose bounds meet is a constant whatever it is made of.
  if ((node.dtype().is_int() || node.dtype().is_bool()) && node.dtype().scalar != Scalar::UInt64 &&
      node.lo() == node.hi())
    return int_const(node.dtype(), node.lo());
  if (!exact(node.op())) return Node();
  Element v[3];
  for (std::size_t i = 0; i < node.arg_count(); ++i) {
    if (!node.arg(i).is_const()) return Node();
    v[i] = element_of(node.arg(i));
  }
  if (node.is(Op::Cast)) return element_const(node.dtype(), convert(node.dtype(), node.arg(0).dtype(), v[0]));
  DType operand = node.arg(node.arg_count() - 1).dtype();
  return element_const(node.dtype(), evaluate(node.op(), operand, v[0], v[1], v[2]));
}

// A cast of a cast is one cast where the first lost nothing: integers of growing range, bool to anything.
Node cast_of_cast(Node node, const Bindings&, Rewriter&) {
  Node inner = node.arg(0);
  if (!inner.is(Op::Cast)) return Node();
  Node source = inner.arg(0);
  DType from = source.dtype(), middle = inner.dtype(), to = node.dtype();
  bool whole = from.is_int() && middle.is_int() && from.scalar != Scalar::UInt64 &&
               middle.scalar != Scalar::UInt64 && source.lo() >= middle.min_int() &&
               source.hi() <= middle.max_int();
  bool from_bool = from.is_bool() && !middle.is_bool();
  bool narrow_float = from.is_float() && middle.is_float() && from.bits() < middle.bits() && to == from;
  return whole || from_bool || narrow_float ? cast(source, to) : Node();
}

const std::vector<Rule>& folding_rules() {
  static const auto* rules = [] {
    auto* out = new std::vector<Rule>;
    for (int i = 0; i < kScalarOps; ++i) {
      Op op = static_cast<Op>(i);
      int n = info(op).args;
      Pat from = n == 1 ? make(op, x) : n == 2 ? make(op, x, y) : make(op, x, y, z);
      out->emplace_back("fold-constants", from, by(fold_constants));
    }
    out->emplace_back("fold-cast", make(Op::Cast, x), by(fold_constants));
    out->emplace_back("cast-cast", make(Op::Cast, x), by(cast_of_cast));
    return out;
  }();
  return *rules;
}

bool always(Node) { return true; }

}  // namespace

RuleTable logic_algebra() { return {"logic", kLogic, on_bool}; }
RuleTable integer_algebra() { return {"integer", kInteger, on_integer}; }
RuleTable float_algebra() { return {"float", kFloat, on_float}; }
RuleTable folding() { return {"folding", folding_rules(), always}; }

const RuleSet& simplify_rules() {
  static const auto* rules = new RuleSet("simplify", {folding(), index_algebra(), compare_algebra(),
                                                      logic_algebra(), integer_algebra(), float_algebra()});
  return *rules;
}

Node simplify(Node root, const RuleChanges& changes) {
  return Rewriter(simplify_rules(), changes).rewrite(root);
}

}  // namespace lathe
