#include "verify/solver.h"

#include "verify/bounds.h"

#if LATHE_HAVE_Z3

#include <z3++.h>

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "ir/build.h"
#include "ir/walk.h"

namespace lathe::verify {
namespace {

// Expressions as solver terms. Integers and indices are mathematical integers: nodes that may wrap become
// unknowns.
class Terms {
 public:
  explicit Terms(z3::solver& solver) : c_(solver.ctx()), solver_(solver), lane_(c_.int_const("lane")) {}

  z3::expr of(Node root) {
    for (Node n : toposort(root))
      if (!terms_.contains(n)) terms_.try_emplace(n, std::optional<z3::expr>(term(n)));
    return **terms_.find(root);
  }

  z3::expr lane(std::uint16_t lanes) {
    solver_.add(lane_ >= 0 && lane_ < static_cast<int>(lanes));
    return lane_;
  }
  bool has_unknowns() const { return unknowns_ > 0; }
  const std::vector<std::pair<Node, z3::expr>>& leaves() const { return leaves_; }
  const z3::expr& lane_term() const { return lane_; }

 private:
  z3::expr number(std::int64_t v) { return c_.int_val(v); }
  z3::expr bounded(const std::string& name, std::int64_t lo, std::int64_t hi) {
    z3::expr e = c_.int_const(name.c_str());
    solver_.add(e >= number(lo) && e <= number(hi));
    return e;
  }
  // Something of which only the dtype and the bounds are known.
  z3::expr unknown(Node n) {
    std::string name = fmt::format("unknown{}", unknowns_++);
    if (n.dtype().is_bool()) return c_.bool_const(name.c_str());
    return bounded(name, n.lo(), n.hi());
  }
  z3::expr leaf(Node n, const std::string& name) {
    z3::expr e = bounded(name, n.lo(), n.hi());
    leaves_.emplace_back(n, e);
    return e;
  }

  // Whether arithmetic on machine integers may have wrapped: the bounds then are those of the dtype.
  static bool may_wrap(Node n) {
    return !n.dtype().is_index() && n.lo() <= n.dtype().min_int() && n.hi() >= n.dtype().max_int();
  }

  z3::expr arg(Node n, std::size_t i) { return **terms_.find(n.arg(i)); }
  z3::expr floor_div(Node n) {
    return arg(n, 0) / arg(n, 1);
  }  // the solver's division rounds down for divisors > 0

  z3::expr term(Node n) {
    if (n.is_const() && n.dtype().is_bool()) return c_.bool_val(n.int_attr() != 0);
    if (n.is_const() && n.dtype().is_int() && n.dtype().scalar != Scalar::UInt64) return number(n.int_attr());
    if (!n.dtype().is_int() && !n.dtype().is_bool()) return c_.int_val(0);  // never an operand of a term
    switch (n.op()) {
      case Op::Var: return leaf(n, n.text());
      case Op::Special: return leaf(n, n.text());
      case Op::Range: {
        z3::expr r = leaf(n, fmt::format("r{}", range_id(n)));
        solver_.add(r < arg(n, 0));
        return r;
      }
      case Op::Iota: return lane_;
      case Op::Splat: return arg(n, 0);
      case Op::Vec: {
        z3::expr e = arg(n, n.arg_count() - 1);
        for (std::size_t i = n.arg_count() - 1; i-- > 0;)
          e = z3::ite(lane_ == static_cast<int>(i), arg(n, i), e);
        return e;
      }
      case Op::Cast: return cast(n);
      default: break;
    }
    if (!is_scalar_op(n.op())) return unknown(n);
    for (Node a : n.args())
      if (!a.dtype().is_int() && !a.dtype().is_bool()) return unknown(n);
    return n.arg(0).dtype().is_bool() && !n.is(Op::Where) ? logic(n) : arithmetic(n);
  }

  z3::expr cast(Node n) {
    DType from = n.arg(0).dtype();
    if (from.is_bool() && n.dtype().is_int()) return z3::ite(arg(n, 0), number(1), number(0));
    if (!from.is_int() || from.scalar == Scalar::UInt64) return unknown(n);
    if (n.dtype().is_bool()) return arg(n, 0) != 0;
    bool fits = n.arg(0).lo() >= n.dtype().min_int() && n.arg(0).hi() <= n.dtype().max_int();
    return fits ? arg(n, 0) : unknown(n);
  }

  z3::expr logic(Node n) {
    switch (n.op()) {
      case Op::And:
      case Op::Mul:
      case Op::Min: return arg(n, 0) && arg(n, 1);
      case Op::Or:
      case Op::Add:
      case Op::Max: return arg(n, 0) || arg(n, 1);
      case Op::Xor:
      case Op::Ne: return arg(n, 0) != arg(n, 1);
      case Op::Eq: return arg(n, 0) == arg(n, 1);
      case Op::Less: return !arg(n, 0) && arg(n, 1);
      case Op::Not: return !arg(n, 0);
      default: return unknown(n);
    }
  }

  z3::expr arithmetic(Node n) {
    switch (n.op()) {
      case Op::Less: return arg(n, 0) < arg(n, 1);
      case Op::Eq: return arg(n, 0) == arg(n, 1);
      case Op::Ne: return arg(n, 0) != arg(n, 1);
      case Op::Where: return z3::ite(arg(n, 0), arg(n, 1), arg(n, 2));
      case Op::Max: return z3::ite(arg(n, 0) < arg(n, 1), arg(n, 1), arg(n, 0));
      case Op::Min: return z3::ite(arg(n, 0) < arg(n, 1), arg(n, 0), arg(n, 1));
      default: break;
    }
    if (may_wrap(n)) return unknown(n);
    bool divides = n.arg_count() > 1 && n.arg(1).lo() > 0;
    switch (n.op()) {
      case Op::Add: return arg(n, 0) + arg(n, 1);
      case Op::Sub: return arg(n, 0) - arg(n, 1);
      case Op::Mul: return arg(n, 0) * arg(n, 1);
      case Op::Neg: return -arg(n, 0);
      case Op::FloorDiv: return divides ? floor_div(n) : unknown(n);
      case Op::FloorMod: return divides ? z3::mod(arg(n, 0), arg(n, 1)) : unknown(n);
      case Op::TruncDiv: return divides && n.arg(0).lo() >= 0 ? floor_div(n) : unknown(n);
      case Op::TruncMod: return divides && n.arg(0).lo() >= 0 ? z3::mod(arg(n, 0), arg(n, 1)) : unknown(n);
      default: return unknown(n);
    }
  }

  z3::context& c_;
  z3::solver& solver_;
  z3::expr lane_;
  NodeMap<std::optional<z3::expr>> terms_;
  std::vector<std::pair<Node, z3::expr>> leaves_;
  int unknowns_ = 0;
};

// Evaluates an expression under values for its ranges, variables and launch indices, and one lane.
class Checker {
 public:
  Checker(NodeMap<std::int64_t> leaves, std::int64_t lane) : leaves_(std::move(leaves)), lane_(lane) {}

  std::optional<std::int64_t> value(Node root) {
    NodeMap<Element> values;
    for (Node n : toposort(root)) {
      Element v;
      if (const std::int64_t* known = leaves_.find(n))
        v.i = *known;
      else if (n.is_const())
        v = element_of(n);
      else if (n.is(Op::Iota))
        v.i = lane_;
      else if (n.is(Op::Splat))
        v = *values.find(n.arg(0));
      else if (n.is(Op::Vec))
        v = *values.find(n.arg(static_cast<std::size_t>(lane_)));
      else if (n.is(Op::Cast))
        v = convert(n.dtype().element(), n.arg(0).dtype().element(), *values.find(n.arg(0)));
      else if (is_scalar_op(n.op())) {
        Element x[3];
        for (std::size_t i = 0; i < n.arg_count(); ++i) x[i] = *values.find(n.arg(i));
        v = evaluate(n.op(), n.arg(n.is(Op::Where) ? 1 : 0).dtype().element(), x[0], x[1], x[2]);
      } else
        return std::nullopt;
      values[n] = v;
    }
    return values.find(root)->i;
  }

 private:
  NodeMap<std::int64_t> leaves_;
  std::int64_t lane_;
};

// Values under which the index leaves, in words, if they really do.
std::optional<std::string> confirm(const BoundsQuestion& q, const Terms& terms, const z3::model& model) {
  NodeMap<std::int64_t> leaves;
  std::string text;
  for (const auto& [node, e] : terms.leaves()) {
    std::int64_t v = 0;
    if (!model.eval(e, true).is_numeral_i64(v)) return std::nullopt;
    leaves[node] = v;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", index_text(node), v);
  }
  std::int64_t lane = 0;
  if (!model.eval(terms.lane_term(), true).is_numeral_i64(lane)) return std::nullopt;
  if (lane < 0 || lane >= q.lanes) lane = 0;
  Checker check(leaves, lane);
  std::optional<std::int64_t> index = check.value(q.index);
  if (!index) return std::nullopt;
  std::int64_t at = *index + (q.index.dtype().lanes == 1 ? lane : 0);
  if (at >= 0 && at < q.size) return std::nullopt;
  if (q.gate && check.value(q.gate) != std::optional<std::int64_t>(1)) return std::nullopt;
  for (const auto& [node, e] : terms.leaves()) {
    if (!node.is(Op::Range)) continue;
    std::optional<std::int64_t> extent = check.value(node.arg(0));
    if (!extent || *leaves.find(node) >= *extent) return std::nullopt;
  }
  return fmt::format("{}{}index {} of {}", text, text.empty() ? "" : ": ", at, q.size);
}

}  // namespace

// The limit counts the solver's own steps, and a context of its own holds nothing of earlier questions: so
// the answer follows from the question, however loaded the machine is and whatever was asked before.
BoundsAnswer ask_solver(const BoundsQuestion& q, unsigned effort) {
  BoundsAnswer answer;
  try {
    z3::context context;
    z3::solver solver(context, z3::solver::simple());
    z3::params params(context);
    params.set("rlimit", effort);
    solver.set(params);
    Terms terms(solver);
    z3::expr index = terms.of(q.index);
    z3::expr lane = terms.lane(q.lanes);
    if (q.index.dtype().lanes == 1 && q.lanes > 1) index = index + lane;
    if (q.gate) solver.add(terms.of(q.gate));
    solver.add(index < 0 || index >= context.int_val(q.size));
    z3::check_result result = solver.check();
    if (result == z3::unsat) answer.kind = BoundsAnswer::Kind::Inside;
    if (result == z3::sat && !terms.has_unknowns())
      if (std::optional<std::string> text = confirm(q, terms, solver.get_model()))
        answer = {BoundsAnswer::Kind::CanLeave, *text};
  } catch (const z3::exception&) {
    // A term the solver refuses, or the end of its effort inside a simplifier: nothing is known.
  }
  return answer;
}

bool has_solver() { return true; }

}  // namespace lathe::verify

#else

namespace lathe::verify {

BoundsAnswer ask_solver(const BoundsQuestion&, unsigned) { return {}; }
bool has_solver() { return false; }

}  // namespace lathe::verify

#endif
