#include "codegen/options/join_fragments.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/small_vector.h"
#include "codegen/kernel/lanes.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/group_ops.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

// How far an index moves with a range, where it does so evenly.
bool moves_by(Node index, Node range, std::int64_t stride) {
  std::int64_t found = 0;
  return is_affine(index, range, found) && found == stride;
}

struct Fragments {
  Node m, n, k;  // ranges inside a fragment
};

// Whether both factors of a product are panels in which fragments lie one after the other.
std::optional<Fragments> find_fragments(Node reduce, const MatrixUnit& unit) {
  Node x = reduce.arg(0).arg(0), y = reduce.arg(0).arg(1);
  for (Node factor : {x, y})
    if (!factor.is(Op::Load) || factor.arg_count() > 2 || !base_memory(factor.arg(0)).is(Op::Define))
      return std::nullopt;
  Fragments f;
  for (Node r : closed_ranges(reduce))
    if (range_kind(r) == RangeKind::Unroll && r.arg(0).is_const_int(unit.k) && moves_by(x.arg(1), r, 1) &&
        moves_by(y.arg(1), r, unit.n))
      f.k = r;
  for (Node r : ranges_of(reduce)) {
    if (range_kind(r) != RangeKind::Upcast) continue;
    if (r.arg(0).is_const_int(unit.m) && moves_by(x.arg(1), r, unit.k) && moves_by(y.arg(1), r, 0)) f.m = r;
    if (r.arg(0).is_const_int(unit.n) && moves_by(y.arg(1), r, 1) && moves_by(x.arg(1), r, 0)) f.n = r;
  }
  return f.m && f.n && f.k ? std::optional(f) : std::nullopt;
}

// The sums of a loop that runs over vectors of them, written to memory of the kernel's own when they are
// complete and read from there one by one.
Node each_sum(Node sums, std::uint16_t lanes, Node which, FreshIds& ids) {
  std::int64_t size = lanes;
  Node at = index_const(0);
  Nodes around;
  for (Node r : ranges_of(sums)) {
    if (range_kind(r) != RangeKind::Upcast) {
      around.push_back(r);
      continue;
    }
    at = at * r.arg(0) + r;
    size *= r.arg(0).const_int();
  }
  at = at * index_const(lanes);
  Node memory = define(sums.dtype().element(), ids.define++, size, Space::Register);
  Node effect = store(around.empty() ? memory : after(memory, around), at, sums);
  return load(after(memory, {&effect, 1}), at + which);
}

// The sums of one fragment after its loop.
Node sums_of(Node reduce, const Fragments& f, const MatrixUnit& unit, FreshIds& ids) {
  const DotKind& kind = *find_dot_kind(unit.dot);
  NodeMap<Node> first;
  for (Node r : {f.m, f.n, f.k}) first.try_emplace(r, index_const(0));
  auto fragment = [&](Node factor, int lanes) {
    return load(factor.arg(0), substitute_free(factor.arg(1), first), Node(),
                static_cast<std::uint16_t>(lanes));
  };
  Node x = fragment(reduce.arg(0).arg(0), unit.m * unit.k),
       y = fragment(reduce.arg(0).arg(1), unit.k * unit.n);
  const auto lanes = static_cast<std::uint16_t>(unit.m * unit.n);
  Node nothing = splat(zero_of(DType(kind.sum)), lanes);
  Nodes left;
  for (Node r : closed_ranges(reduce))
    if (r != f.k) left.push_back(r);
  Node sums = reduce_ranges(Op::Add, dot(kind, x, y, nothing, {unit.m, unit.n, unit.k}), left);
  return each_sum(sums, lanes, f.m * index_const(unit.n) + f.n, ids);
}

// The ranges of a fragment that threads share: row = (warp*2 + high)*8 + group, column = (columns*4 + pair)*2
// + low.
struct Shares {
  Node high, low, k, columns;                   // in registers of a thread, and the words of a step
  Node warp, group, pair;                       // over threads
  const RuleChanges* rules = &kRulesAsWritten;  // used to compare indices
};

std::optional<Shares> find_shares(Node kernel, const MatrixUnit& unit, const FragmentRanges& at,
                                  const RuleChanges& rules) {
  Shares s;
  s.rules = &rules;
  bool all = true;
  auto find = [&](int id, std::int64_t extent) {
    for (Node r : all_ranges(kernel))
      if (id >= 0 && range_id(r) == id && r.arg(0).is_const_int(extent)) return r;
    all &= id < 0;
    return Node();
  };
  s.k = find(at.k, unit.k), s.high = find(at.high, 2), s.low = find(at.low, 2);
  s.columns = find(at.columns, unit.n / 8), s.warp = find(at.warp, unit.m / 16);
  s.group = find(at.group, 8), s.pair = find(at.pair, 4);
  return all ? std::optional(s) : std::nullopt;
}

// A factor in a panel: words, or the numbers of words in swizzled rows.
struct PanelFactor {
  Node memory, index;
  PanelRows rows = PanelRows::Steps;
  std::int64_t output = 1;  // how far neighbouring rows of x or columns of y are apart
  bool swizzled = false;
  std::int64_t row = 64;  // numbers of a row of a swizzled panel
};

// How far an index moves with the first step of a range from where all ranges of the fragment are 0; else 0.
std::int64_t first_step(Node index, const Shares& s, Node range) {
  NodeMap<Node> zero, one;
  for (Node r : {s.high, s.low, s.k, s.columns, s.warp, s.group, s.pair}) {
    if (!r) continue;
    zero.try_emplace(r, index_const(0));
    one.try_emplace(r, index_const(r == range ? 1 : 0));
  }
  Linear apart = linear(simplify(substitute_free(index, one), *s.rules));
  apart.add(simplify(substitute_free(index, zero), *s.rules), -1);
  return apart.terms.empty() ? apart.constant : 0;
}

// The factor of a product: `outputs` are the ranges of its outputs by growing weight, `others` those it must
// not depend on. Rows of a swizzled panel are even by how they were made; words may be in any way.
std::optional<PanelFactor> panel_factor(Node factor, const Shares& s, std::initializer_list<Node> outputs,
                                        std::initializer_list<Node> others) {
  PanelFactor f;
  Node first = factor.is(Op::Pack) ? factor.arg(0) : factor;
  if (!first.is(Op::Load) || first.arg_count() > 2) return std::nullopt;
  Node base = base_memory(first.arg(0));
  if (!base.is(Op::Define) || define_space(base) != Space::Shared) return std::nullopt;
  f.memory = first.arg(0), f.index = first.arg(1);
  f.swizzled = shared_form(base).swizzled;
  if (f.swizzled != factor.is(Op::Pack)) return std::nullopt;
  if (f.swizzled) {
    f.row = panel_row(base.dtype().bytes());
    // Words of one number are in rows of steps, as all are that have not 16 bits.
    if (factor.arg_count() == 2) {
      Linear apart = linear(factor.arg(1).arg(1));
      apart.add(f.index, -1);
      f.rows = apart.constant == 1 ? PanelRows::Steps : PanelRows::Outputs;
    }
  }
  for (Node r : others)
    if (r && depends_on(f.index, r)) return std::nullopt;
  f.output = first_step(f.index, s, *outputs.begin());
  if (f.output == 0) return std::nullopt;
  std::int64_t weight = f.output;
  for (Node r : outputs) {
    if (!r) continue;
    if (f.swizzled ? first_step(f.index, s, r) != weight : !moves_by(f.index, r, weight)) return std::nullopt;
    weight *= r.arg(0).const_int();
  }
  return f;
}

// The index with the ranges of the fragment at their first step.
Node origin_of(const PanelFactor& f, const Shares& s) {
  NodeMap<Node> zero;
  for (Node r : {s.high, s.low, s.k, s.columns, s.warp, s.group, s.pair})
    if (r) zero.try_emplace(r, index_const(0));
  return substitute_free(f.index, zero);
}

// How far the next 64 columns are in a panel whose rows are outputs.
std::int64_t slab_of(const PanelFactor& f, const Shares& s) {
  const std::int64_t next = f.row / 8;
  if (f.rows == PanelRows::Steps || !depends_on(f.index, s.columns) || s.columns.arg(0).const_int() <= next)
    return 0;
  NodeMap<Node> there;
  for (Node r : {s.high, s.low, s.k, s.columns, s.warp, s.group, s.pair})
    if (r) there.try_emplace(r, index_const(r == s.columns ? next : 0));
  Linear apart = linear(simplify(substitute_free(f.index, there), *s.rules));
  apart.add(simplify(origin_of(f, s), *s.rules), -1);
  return apart.terms.empty() ? apart.constant : 0;
}

// Matrices of a factor, each of 8 outputs and 8 steps; `outputs` of them lie along the outputs, the next ones
// 8 steps on. Lane 8*i + j names row j of matrix i.
Node matrices_of(const PanelFactor& f, const Shares& s, std::int64_t outputs) {
  Node row = floor_mod(s.group, index_const(2)) * index_const(4) + s.pair,
       matrix = floor_div(s.group, index_const(2));
  Node half = outputs > 1 ? floor_div(matrix, index_const(outputs)) : floor_mod(matrix, index_const(2));
  Node output = outputs > 1 ? floor_mod(matrix, index_const(outputs)) * index_const(8) : index_const(0),
       step = half * index_const(8);
  (f.rows == PanelRows::Steps ? output : step) = (f.rows == PanelRows::Steps ? output : step) + row;
  const std::int64_t step_apart = f.rows == PanelRows::Steps ? 1 : f.row;
  return matrices(f.memory, origin_of(f, s) + output * index_const(f.output) + step * index_const(step_apart),
                  static_cast<int>(outputs * 2), f.rows == PanelRows::Outputs);
}

// The words of a factor that each thread reads itself: x[group + 8*high][pair + 4*half], or those of y, whose
// columns are the rows.
Node words_of(const PanelFactor& f, const Shares& s, bool is_x) {
  Nodes words;
  for (std::int64_t half = 0; half < 2; ++half)
    for (std::int64_t high = 0; high < (is_x ? 2 : 1); ++high) {
      NodeMap<Node> at;
      at.try_emplace(s.k, s.pair + index_const(half * 4));
      if (is_x) at.try_emplace(s.high, index_const(high));
      for (Node r : {s.pair, s.low})
        if (!is_x) at.try_emplace(r, index_const(0));
      Node index = substitute_free(f.index, at);
      words.push_back(load(f.memory, is_x ? index : index + s.group * index_const(f.output)));
    }
  return vec(words);
}

// Whether a value is made of memory of the thread's own alone.
bool is_made_of_own(Node value) {
  if (value.is(Op::Load)) {
    Node base = base_memory(value.arg(0));
    return base.is(Op::Define) && define_space(base) == Space::Register;
  }
  return std::all_of(value.args().begin(), value.args().end(), is_made_of_own);
}

// A value made of the thread's own memory with ranges replaced in its indices. The memory is that after both
// halves of the rows were written: one word of a vector is of the one, the next of the other.
Node at_place(Node value, const NodeMap<Node>& at, Node high) {
  if (value.is(Op::Load)) {
    Nodes effects;
    for (std::size_t i = 1; i < value.arg(0).arg_count(); ++i) {
      Node effect = value.arg(0).arg(i);
      effects.push_back(depends_on(effect, high) ? end(effect, {&high, 1}) : effect);
    }
    return load(after(base_memory(value.arg(0)), effects), substitute_free(value.arg(1), at));
  }
  Nodes args;
  for (Node a : value.args()) args.push_back(at_place(a, at, high));
  return value.arg_count() == 0 ? value : rebuild(value, args);
}

// The words of x that a thread of a warpgroup has in registers (ir/group_ops.h), where x is made of memory of
// the thread's own: its rows are threads, and it has those words of a row that its share of the sums of
// another product are. Null where x runs along the columns.
Node held_words(Node x, const Shares& s, const MatrixUnit& unit) {
  if (!x.is(Op::Pack) || !is_made_of_own(x)) return Node();
  for (Node r : {s.low, s.columns})
    if (depends_on(x, r)) return Node();
  Nodes words;
  for (int lane = 0; lane < unit.m * unit.k / unit.threads; ++lane) {
    const HeldWord first = held_word(0, lane);
    NodeMap<Node> at;
    at.try_emplace(s.k, s.pair + index_const(first.word));
    at.try_emplace(s.high, index_const(first.row / 8));
    words.push_back(at_place(x, at, s.high));
  }
  return vec(words);
}

// A thread's sums after its loop, written to registers of its own and read from there one by one.
std::optional<Node> shared_sums(Node reduce, const Shares& s, const MatrixUnit& unit, FreshIds& ids) {
  const DotKind& kind = *find_dot_kind(unit.dot);
  std::optional<PanelFactor> x = panel_factor(reduce.arg(0).arg(0), s, {s.group, s.high, s.warp},
                                              {s.low, s.pair, s.columns}),
                             y = panel_factor(reduce.arg(0).arg(1), s, {s.low, s.pair, s.columns},
                                              {s.group, s.high, s.warp});
  Node held = !x && unit.reads == UnitReads::Panels ? held_words(reduce.arg(0).arg(0), s, unit) : Node();
  if ((!x && !held) || !y) return std::nullopt;
  const auto lanes = static_cast<std::uint16_t>(unit.m * unit.n / unit.threads);
  Node nothing = splat(zero_of(DType(kind.sum)), lanes), product;
  if (unit.reads == UnitReads::Panels) {
    if ((x && !x->swizzled) || !y->swizzled) return std::nullopt;
    PanelShape shape{unit.m, unit.n, unit.k, unit.threads, {}, {}};
    if (x) shape.x = {x->rows, slab_of(*x, s)};
    shape.y = {y->rows, slab_of(*y, s)};
    product = panel_dot(kind, shape, x ? x->memory : held, x ? origin_of(*x, s) : index_const(0), y->memory,
                        origin_of(*y, s), nothing);
  } else {
    Node xs = x->swizzled ? matrices_of(*x, s, 2) : words_of(*x, s, true),
         ys = y->swizzled ? matrices_of(*y, s, 1) : words_of(*y, s, false);
    product = dot(kind, xs, ys, nothing, {unit.m, unit.n, unit.k, unit.threads});
  }
  Nodes left;
  for (Node r : closed_ranges(reduce))
    if (r != s.k) left.push_back(r);
  Node which = s.high * index_const(2) + s.low;
  if (s.columns) which = s.columns * index_const(4) + which;
  return each_sum(reduce_ranges(Op::Add, product, left), lanes, which, ids);
}

}  // namespace

OrRefusal<Node> join_shares(Node kernel, const FragmentRanges& at, const RuleChanges& rules) {
  const MatrixUnit& unit = *at.unit;
  NodeMap<Node> map;
  FreshIds ids = fresh_ids(kernel);
  if (std::optional<Shares> s = find_shares(kernel, unit, at, rules))
    for (Node n : toposort(kernel)) {
      if (!n.is(Op::Reduce) || reduce_op(n) != Op::Add || !n.arg(0).is(Op::Dot)) continue;
      if (n.arg(0).text() != unit.dot) continue;
      if (s->k && !contains(closed_ranges(n), s->k)) continue;  // of several products each has its own
      if (std::optional<Node> sums = shared_sums(n, *s, unit, ids)) map.try_emplace(n, *sums);
    }
  if (map.empty())
    return Refusal{
        "TC", unit.reads == UnitReads::Panels
                  ? "a unit that reads panels needs both factors staged in swizzled rows"
                  : "a unit of fragments that a warp shares needs both factors as they were loaded, staged"};
  return substitute(kernel, map);
}

OrRefusal<Node> join_fragments(Node kernel, const Target& target, bool wanted) {
  if (!wanted) return kernel;
  FreshIds ids = fresh_ids(kernel);
  NodeMap<Node> map;
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Reduce) || reduce_op(n) != Op::Add || !n.arg(0).is(Op::Dot)) continue;
    const MatrixUnit* unit = unit_for_dot(target.units, n.arg(0).text(), true);
    std::optional<Fragments> f = unit != nullptr ? find_fragments(n, *unit) : std::nullopt;
    if (f) map.try_emplace(n, sums_of(n, *f, *unit, ids));
  }
  if (map.empty())
    return Refusal{"TC", "a unit of fragments needs both factors staged in the consumer's order"};
  return substitute(kernel, map);
}

}  // namespace lathe
