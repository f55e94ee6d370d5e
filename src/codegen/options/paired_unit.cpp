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

// A product whose sums are worked on in a panel, and the loop that fills it; or one whose first factor is
// made of a panel, and the range along its outputs that moves the other factor alone.
struct Scores {
  SmallProduct product;
  Node fill;
  Node inside;  // where scores count at all, or null
};
struct Weighted {
  SmallProduct product;
  Node column;
  Node steps() const { return closed_ranges(product.reduce)[0]; }
};
// The products of a tuple reduce and the loops over its panels.
struct Paired {
  std::vector<Scores> scores;
  std::vector<Weighted> weighted;
  Nodes beside;  // other loops and reduces over panels
};

// Whether a factor is read from a panel, at the range `over`.
bool reads_panel(Node factor, Node over) {
  for (Node n : toposort(factor))
    if (n.is(Op::Load) && is_own(n.arg(0)) && n.arg(1) == over) return true;
  return false;
}

// The range along outputs that moves the second factor alone; null where it is not one.
Node column_of(const SmallProduct& p) {
  Node found;
  for (Node r : ranges_of(p.y)) {
    if (range_kind(r) != RangeKind::Loop || depends_on(p.x, r)) continue;
    if (found) return Node();
    found = r;
  }
  return found;
}

void find_products(std::span<const Node> order, const Target& target, Paired& found) {
  for (Node n : order) {
    std::optional<SmallProduct> p = small_product_of(n, target);
    if (!p || closed_ranges(n).size() != 1) continue;
    Node over = closed_ranges(n)[0];
    if (reads_panel(p->y, over)) std::swap(p->x, p->y);
    if (reads_panel(p->x, over))
      found.weighted.push_back({*p, column_of(*p)});
    else
      found.scores.push_back({*p, Node(), Node()});
  }
}

// What a store to a panel is made of, without what is in other panels.
bool is_made_of(Node value, Node part) {
  const auto here = [](Node n) { return !n.is(Op::Load) || !is_own(n.arg(0)); };
  const std::vector<Node> inside = toposort(std::span<const Node>(&value, 1), here);
  return std::find(inside.begin(), inside.end(), part) != inside.end();
}

// The loops that fill panels with scores, and all others over panels of so many steps.
bool find_loops(std::span<const Node> order, Paired& found) {
  Nodes loops;
  for (Node n : order) {
    if ((!n.is(Op::Load) && !n.is(Op::Store)) || !is_own(n.arg(0))) continue;
    Node at = n.arg(1);
    if (!at.is(Op::Range) || (!loops.empty() && at.arg(0) != loops[0].arg(0))) return false;
    if (!contains(loops, at)) loops.push_back(at);
    for (Scores& s : found.scores) {
      if (!n.is(Op::Store) || !depends_on(s.product.reduce, at) || !is_made_of(n.arg(2), s.product.reduce))
        continue;
      if (s.fill && s.fill != at) return false;
      s.fill = at;
      if (n.arg(2).is(Op::Where)) s.inside = n.arg(2).arg(0);
    }
  }
  for (Node loop : loops) {
    const bool fills = std::ranges::any_of(found.scores, [&](const Scores& s) { return s.fill == loop; });
    const bool sums =
        std::ranges::any_of(found.weighted, [&](const Weighted& w) { return w.steps() == loop; });
    if (fills && sums) return false;
    if (!fills && !sums) found.beside.push_back(loop);
  }
  return std::ranges::all_of(found.scores, [](const Scores& s) { return static_cast<bool>(s.fill); });
}

// Scores beyond the end of their axis count nowhere, so a factor that does not run along it needs no gate.
Node everywhere(Node factor, const Scores& s) {
  const bool gated = factor.is(Op::Load) && factor.arg_count() > 2 && factor.arg(2) == s.inside;
  return gated && !depends_on(factor.arg(1), s.fill) ? load(factor.arg(0), factor.arg(1)) : factor;
}

std::optional<Paired> find_paired(Node kernel, const Target& target) {
  const std::vector<Node> order = toposort(kernel);
  if (std::ranges::count_if(order, [](Node n) { return n.is(Op::Fold); }) != 1) return std::nullopt;
  Paired found;
  find_products(order, target, found);
  if (found.scores.empty() || !find_loops(order, found)) return std::nullopt;
  for (Scores& s : found.scores) {
    SmallProduct& p = s.product;
    for (Node* factor : {&p.x, &p.y}) *factor = everywhere(*factor, s);
    if (depends_on(p.y, s.fill) == depends_on(p.x, s.fill)) return std::nullopt;
    if (depends_on(p.x, s.fill)) std::swap(p.x, p.y);
  }
  return found;
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

namespace {

// The kernel on the unit, a product after the other: each may be made of what became of those before.
class Packer {
 public:
  Packer(Node kernel, Paired paired, const Opt& opt, const Target& target, const RuleChanges& rules)
      : paired_(std::move(paired)), opt_(opt), target_(target), rules_(rules) {
    made_.kernel = kernel;
  }

  OrRefusal<UnitKernel> run(Node column) {
    if (!choose_units(column) || !choose_rows()) return *refusal_;
    std::vector<SmallProduct> products;
    for (const Scores& s : paired_.scores) products.push_back(s.product);
    for (const Weighted& w : paired_.weighted) products.push_back(w.product);
    for (std::size_t i = 0; i < products.size(); ++i)
      if (!pack(products, i)) return *refusal_;
    const UnitKernel::Along& main = made_.row[main_];
    made_.unit = main.unit, made_.n = main.n, made_.k = main.k;
    made_.beside.append(paired_.beside.begin(), paired_.beside.end());
    return made_;
  }

 private:
  bool refuse(const std::string& reason) {
    refusal_ = {to_string({&opt_, 1}), reason};
    return false;
  }

  // One whose fragments are as wide as a tile of scores, and for each other product the narrowest that holds
  // its outputs, or of that along `column` the one the option names.
  bool choose_units(Node column) {
    const std::int64_t tile = paired_.scores[0].fill.arg(0).hi();
    std::int64_t sums = 0;
    NodeMap<char> counted;
    for (const Scores& s : paired_.scores) {
      const MatrixUnit* chosen = nullptr;
      for (const MatrixUnit* unit : panel_units(s.product, target_))
        if (unit->n == tile) chosen = unit;
      if (chosen == nullptr || !s.fill.arg(0).is_const())
        return refuse(
            fmt::format("no matrix unit of target {} takes {} scores at a time", target_.name, tile));
      if (paired_.weighted.empty() && s.fill == column) main_ = made_.row.size();
      made_.row.push_back({chosen, s.fill, Node()});
      sums += chosen->n / 2;
    }
    made_.scores = made_.row.size();
    for (const Weighted& w : paired_.weighted) {
      if (!w.column) return refuse("no range moves the second factor of a product of weights alone");
      const std::int64_t columns = w.column.arg(0).hi();
      std::vector<const MatrixUnit*> fit;
      for (const MatrixUnit* unit : panel_units(w.product, target_))
        if (unit->n >= columns && w.column.arg(0).is_const()) fit.push_back(unit);
      if (fit.empty())
        return refuse(fmt::format("no matrix unit of target {} takes {} columns of {}, and {} of scores",
                                  target_.name, columns, w.product.y.dtype().str(), tile));
      const bool named = w.column == column;
      if (named && (opt_.arg[0] < -1 || opt_.arg[0] >= static_cast<std::int64_t>(fit.size())))
        return refuse(fmt::format("there is no row {}: {} fit", opt_.arg[0], fit.size()));
      if (named) main_ = made_.row.size();
      const auto row = static_cast<std::size_t>(named ? std::max<std::int64_t>(opt_.arg[0], 0) : 0);
      made_.row.push_back({fit[row], w.column, Node()});
      sums += fit[row]->n / 2;
    }
    if (sums > kMostSums)
      return refuse(fmt::format("a thread would have {} sums, more than {}", sums, kMostSums));
    return true;
  }

  bool choose_rows() {
    made_.m = rows_of(paired_.scores[0].product);
    auto moves_first = [&](const SmallProduct& p) {
      return depends_on(p.x, made_.m) && !depends_on(p.y, made_.m);
    };
    const bool all =
        made_.m &&
        std::ranges::all_of(paired_.scores, [&](const Scores& s) { return moves_first(s.product); }) &&
        std::ranges::all_of(paired_.weighted, [&](const Weighted& w) { return moves_first(w.product); });
    return all || refuse("no output range moves the first factors alone");
  }

  bool pack(std::vector<SmallProduct>& products, std::size_t at) {
    UnitKernel::Along& along = made_.row[at];
    Node steps = closed_ranges(products[at].reduce)[0];
    const std::int64_t parts = find_dot_kind(along.unit->dot)->parts;
    if (!steps.arg(0).is_const() || (opt_.arg[1] == 0 && steps.arg(0).const_int() % parts != 0))
      return refuse("a sum of constant length in whole words is needed");
    const WordSum words = sum_in_words(products[at], *along.unit, steps, rules_);
    along.k = words.k;
    NodeMap<Node> map;
    map.try_emplace(products[at].reduce, words.sum);
    made_.kernel = substitute(made_.kernel, map);
    for (std::size_t later = at + 1; later < products.size(); ++later)
      for (Node* n : {&products[later].reduce, &products[later].x, &products[later].y})
        *n = substitute(*n, map);
    for (Node r : all_ranges(made_.kernel))
      if (r == steps && steps != words.k)
        return refuse("another value of the kernel runs along the same reduce range");
    return true;
  }

  // Of all products: what else a thread works with has registers too.
  static constexpr std::int64_t kMostSums = 200;

  const Paired paired_;
  const Opt& opt_;
  const Target& target_;
  const RuleChanges& rules_;
  UnitKernel made_;
  std::size_t main_ = 0;
  std::optional<Refusal> refusal_;
};

}  // namespace

OrRefusal<UnitKernel> use_paired_unit(Node kernel, const Opt& opt, const Target& target,
                                      const RuleChanges& rules) {
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
  bool is_column = false;
  for (const Weighted& w : paired->weighted) is_column |= w.column == column;
  if (paired->weighted.empty())
    for (const Scores& s : paired->scores) is_column |= s.fill == column;
  if (!is_column)
    return refused(
        fmt::format("axis {} does not move the second factor of the second product alone", opt.axis));
  return Packer(kernel, std::move(*paired), opt, target, rules).run(column);
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
