#include "codegen/options/paired_unit.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/small_vector.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"
#include "target/matrix_units.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

bool is_own(Node memory) {
  Node base = base_memory(memory);
  return base.is(Op::Define) && define_space(base) == Space::Register;
}

// The two products of a tuple reduce and the loops over its panels.
struct Paired {
  SmallProduct scores, values;  // x of the second is made of a panel
  Node fill, term;              // the loop that stores the first's sums; the reduce of the second
  Nodes beside;                 // other loops and reduces over panels
  Node inside;                  // where scores count at all, or null
};

// The panel a factor is read from, at the range `over`, or null.
Node panel_of(Node factor, Node over) {
  for (Node n : toposort(factor))
    if (n.is(Op::Load) && is_own(n.arg(0)) && n.arg(1) == over) return base_memory(n.arg(0));
  return Node();
}

std::optional<Paired> find_paired(Node kernel, const Target& target) {
  const std::vector<Node> order = toposort(kernel);
  Paired found;
  Node fold;
  for (Node n : order)
    if (n.is(Op::Fold)) {
      if (fold) return std::nullopt;
      fold = n;
    }
  if (!fold) return std::nullopt;
  for (Node n : order) {
    std::optional<SmallProduct> p = small_product_of(n, target);
    if (!p || closed_ranges(n).size() != 1) continue;
    Node over = closed_ranges(n)[0];
    if (panel_of(p->y, over)) std::swap(p->x, p->y);
    const bool weighs = static_cast<bool>(panel_of(p->x, over));
    SmallProduct& to = weighs ? found.values : found.scores;
    if (to.reduce) return std::nullopt;
    to = *p;
    if (weighs) found.term = over;
  }
  if (!found.scores.reduce || !found.values.reduce) return std::nullopt;
  for (Node n : order) {
    const bool access = (n.is(Op::Load) || n.is(Op::Store)) && is_own(n.arg(0));
    if (!access) continue;
    Node at = n.arg(1);
    if (!at.is(Op::Range) || at.arg(0) != found.term.arg(0)) return std::nullopt;
    const bool fills = n.is(Op::Store) && depends_on(n.arg(2), at) && [&] {
      const std::vector<Node> inside = toposort(n.arg(2));
      return std::find(inside.begin(), inside.end(), found.scores.reduce) != inside.end() &&
             depends_on(found.scores.reduce, at);
    }();
    if (fills) {
      found.fill = at;
      if (n.arg(2).is(Op::Where)) found.inside = n.arg(2).arg(0);
    } else if (at != found.term && !contains(found.beside, at))
      found.beside.push_back(at);
  }
  if (!found.fill || contains(found.beside, found.fill)) return std::nullopt;
  return found;
}

// Scores beyond the end of their axis count nowhere, so a factor that does not run along it needs no gate.
Node everywhere(Node factor, const Paired& paired) {
  const bool gated = factor.is(Op::Load) && factor.arg_count() > 2 && factor.arg(2) == paired.inside;
  return gated && !depends_on(factor.arg(1), paired.fill) ? load(factor.arg(0), factor.arg(1)) : factor;
}

// The unit of that kind whose fragments have so many columns.
std::vector<const MatrixUnit*> panel_units(const SmallProduct& p, const Target& target) {
  std::vector<const MatrixUnit*> out;
  for (const std::string& name : target.units) {
    const MatrixUnit* unit = find_matrix_unit(name);
    const DotKind* kind = unit != nullptr ? find_dot_kind(unit->dot) : nullptr;
    if (kind == nullptr || unit->reads != UnitReads::Panels || DType(kind->sum) != p.reduce.dtype()) continue;
    if (DType(kind->x) == p.x.dtype() && DType(kind->y) == p.y.dtype()) out.push_back(unit);
  }
  std::sort(out.begin(), out.end(), [](const MatrixUnit* a, const MatrixUnit* b) { return a->n < b->n; });
  return out;
}

// The launched range that moves the first factor alone and has the most rows.
Node rows_of(const SmallProduct& p) {
  Node best;
  for (Node r : ranges_of(p.x)) {
    if (range_kind(r) != RangeKind::Global || !r.arg(0).is_const() || depends_on(p.y, r)) continue;
    if (!best || r.arg(0).const_int() > best.arg(0).const_int()) best = r;
  }
  return best;
}

}  // namespace

bool has_paired_products(Node kernel) {
  bool fold = false, panel = false;
  for (Node n : toposort(kernel)) {
    fold |= n.is(Op::Fold);
    panel |= n.is(Op::Define);
  }
  return fold && panel;
}

OrRefusal<UnitKernel> use_paired_unit(Node kernel, const Opt& opt, const Target& target) {
  auto refused = [&](const std::string& reason) { return Refusal{to_string({&opt, 1}), reason}; };
  if (opt.arg.size() < 3)
    return refused("a row, whether words may be padded, and how the unit is used are needed");
  if (opt.arg[2] != 1) return refused("two products one after the other are for the instruction alone");
  std::optional<Paired> paired = find_paired(kernel, target);
  if (!paired) return refused("the kernel has no two products of small numbers around panels");
  const std::vector<Node> ranges = all_ranges(kernel);
  if (opt.axis < 0 || static_cast<std::size_t>(opt.axis) >= ranges.size())
    return refused(fmt::format("there is no axis {}: the list has {}", opt.axis, ranges.size()));
  Node column = ranges[static_cast<std::size_t>(opt.axis)];
  if (!depends_on(paired->values.y, column) || depends_on(paired->values.x, column))
    return refused(
        fmt::format("axis {} does not move the second factor of the second product alone", opt.axis));
  for (Node* factor : {&paired->scores.x, &paired->scores.y}) *factor = everywhere(*factor, *paired);
  if (depends_on(paired->scores.y, paired->fill) == depends_on(paired->scores.x, paired->fill))
    return refused("the loop over a tile does not move one factor of the first product");
  if (depends_on(paired->scores.x, paired->fill)) std::swap(paired->scores.x, paired->scores.y);
  const std::int64_t tile = paired->term.arg(0).hi(), columns = column.arg(0).hi();
  std::vector<const MatrixUnit*> rows;
  UnitKernel made;
  for (const MatrixUnit* unit : panel_units(paired->values, target))
    if (unit->n >= columns) rows.push_back(unit);
  for (const MatrixUnit* unit : panel_units(paired->scores, target))
    if (unit->n == tile) made.first.unit = unit;
  if (rows.empty() || made.first.unit == nullptr || !paired->term.arg(0).is_const() ||
      !column.arg(0).is_const())
    return refused(fmt::format("no matrix unit of target {} takes {} columns of {}, and {} of scores",
                               target.name, columns, paired->values.y.dtype().str(), tile));
  if (opt.arg[0] < -1 || opt.arg[0] >= static_cast<std::int64_t>(rows.size()))
    return refused(fmt::format("there is no row {}: {} fit", opt.arg[0], rows.size()));
  made.unit = rows[static_cast<std::size_t>(std::max<std::int64_t>(opt.arg[0], 0))];
  made.m = rows_of(paired->scores);
  if (!made.m || !depends_on(paired->values.x, made.m) || depends_on(paired->values.y, made.m))
    return refused("no output range moves the first factors alone");
  made.n = column, made.first.n = paired->fill;
  made.beside.append(paired->beside.begin(), paired->beside.end());
  Node k = closed_ranges(paired->scores.reduce)[0];
  const std::int64_t parts = find_dot_kind(made.unit->dot)->parts;
  for (Node steps : {k, paired->term})
    if (!steps.arg(0).is_const() || (opt.arg[1] == 0 && steps.arg(0).const_int() % parts != 0))
      return refused("a sum of constant length in whole words is needed");
  // One after the other: the second is made of what became of the first.
  const WordSum scores = sum_in_words(paired->scores, *made.first.unit, k);
  NodeMap<Node> first, second;
  first.try_emplace(paired->scores.reduce, scores.sum);
  for (Node* n : {&paired->values.reduce, &paired->values.x, &paired->values.y, &kernel})
    *n = substitute(*n, first);
  const WordSum values = sum_in_words(paired->values, *made.unit, paired->term);
  second.try_emplace(paired->values.reduce, values.sum);
  made.kernel = substitute(kernel, second);
  made.first.k = scores.k, made.k = values.k;
  for (Node r : all_ranges(made.kernel))
    if ((r == k && k != scores.k) || (r == paired->term && r != values.k))
      return refused("another value of the kernel runs along the same reduce range");
  return made;
}

namespace {

// How the elements of a panel are divided among threads: index = high*(step*extent) + thread*step + low.
struct Share {
  Node thread;
  std::int64_t step = 0;
};

// An index as its parts above and below that of a thread, or null where it has no such form.
Node own_index(Node index, const Share& share) {
  const Linear sum = linear(index);
  const std::int64_t extent = share.thread.arg(0).const_int(), whole = share.step * extent;
  Linear high, low;
  bool moves = false;
  for (const Term& t : sum.terms) {
    if (t.node == share.thread) {
      if (t.coefficient != share.step) return Node();
      moves = true;
    } else if (depends_on(t.node, share.thread)) {
      return Node();
    } else if (t.coefficient % whole == 0) {
      high.add_term(t.node, t.coefficient / extent);
    } else {
      low.add_term(t.node, t.coefficient);
    }
  }
  if (!moves || sum.constant < 0) return Node();
  high.constant = sum.constant / whole * share.step;
  low.constant = sum.constant % whole;
  if (low.lo() < 0 || low.hi() >= share.step) return Node();
  return high.build() + low.build();
}

}  // namespace

Node share_panels(Node kernel) {
  const std::vector<Node> order = toposort(kernel);
  NodeMap<Share> shares;  // by memory; none where it is not divided
  for (Node n : order) {
    if ((!n.is(Op::Load) && !n.is(Op::Store)) || !is_own(n.arg(0)) || n.dtype().lanes > 1) continue;
    auto [share, fresh] = shares.try_emplace(base_memory(n.arg(0)));
    if (fresh)
      for (const Term& t : linear(n.arg(1)).terms)
        if (t.node.is(Op::Range) && in_group(t.node) && t.node.arg(0).is_const())
          *share = {t.node, t.coefficient};
    if (!share->thread) continue;
    if (share->step < 1 || !own_index(n.arg(1), *share)) *share = {};
  }
  NodeMap<Node> done;
  for (Node n : order) {
    Nodes args;
    for (Node a : n.args()) args.push_back(*done.find(a));
    Node now = n.arg_count() == 0 ? n : rebuild(n, args);
    auto divided = [&](Node memory) {
      const Share* share = shares.find(memory);
      return share != nullptr && share->thread ? share : nullptr;
    };
    if (n.is(Op::Define)) {
      if (const Share* share = divided(n))
        now = define(n.dtype(), define_id(n), memory_size(n) / share->thread.arg(0).const_int(),
                     Space::Register);
    } else if (n.is(Op::Load) || n.is(Op::Store)) {
      if (const Share* share = divided(base_memory(n.arg(0)))) {
        args[1] = own_index(n.arg(1), *share);
        now = rebuild(n, args);
      }
    }
    done.try_emplace(n, now);
  }
  return *done.find(kernel);
}

}  // namespace lathe
