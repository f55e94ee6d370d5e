#include "schedule/join_folds.h"

#include <algorithm>

#include "base/hash.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

std::size_t components(Node fold) { return static_cast<std::size_t>(fold.ints()[1]); }
Node first_of(Node fold, std::size_t i) { return fold.arg(i); }
Node step_of(Node fold, std::size_t i) { return fold.arg(components(fold) + i); }

Node get_of(Node fold, std::size_t i) {
  return intern(Op::Get, first_of(fold, i).dtype(), {fold}, Attr::of(static_cast<std::int64_t>(i)));
}
Node carry_of(Node fold, std::size_t i, std::size_t number) {
  AttrData d{"", {fold.ints()[0], static_cast<std::int64_t>(number), 0}};
  return intern(Op::Carry, first_of(fold, i).dtype(), {}, Attr::of(d));
}

// Matches two expressions that are equal except for their own ranges and memory, and finds the mapping of
// these. Commutative operands are ordered by when they were made, so they are matched by structure; ranges
// are bound before the indices that contain them.
class Renaming {
 public:
  explicit Renaming(const RuleChanges& rules) : rules_(rules) {}
  bool bind(Node from, Node to) {
    if (const Node* known = to_.find(from)) return *known == to;
    if (from.op() != to.op() || from.dtype() != to.dtype() || !taken_.try_emplace(to, 1).second) return false;
    to_[from] = to;
    return true;
  }
  bool matches(Node from, Node to) {
    if (const Node* known = to_.find(from)) return *known == to;
    if (from.op() != to.op() || from.dtype() != to.dtype() || from.arg_count() != to.arg_count())
      return false;
    if (from.dtype().is_index()) return same_index(from, to);
    if (from.is(Op::Define)) return memory_size(from) == memory_size(to) && bind(from, to);
    if (from.arg_count() == 0) return from == to;
    if (from.attr() != to.attr() || kind_of(from) != kind_of(to)) return false;
    if (!bind_closed(from, to) || !operands_match(from, to)) return false;
    to_[from] = to;
    return true;
  }
  const NodeMap<Node>& map() const { return to_; }

 private:
  bool same_index(Node from, Node to) const {
    return simplify(substitute(from, to_), rules_) == simplify(to, rules_);
  }

  bool bind_closed(Node from, Node to) {
    std::span<const Node> mine = closed_ranges(from), theirs = closed_ranges(to);
    if (mine.size() != theirs.size()) return false;
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (range_kind(mine[i]) != range_kind(theirs[i]) || mine[i].arg(0) != theirs[i].arg(0) ||
          !bind(mine[i], theirs[i]))
        return false;
    return true;
  }

  bool operands_match(Node from, Node to) {
    auto in_order = [&](std::size_t x, std::size_t y) {
      return matches(from.arg(0), to.arg(x)) && matches(from.arg(1), to.arg(y));
    };
    if (is_commutative(from.op()) && from.arg_count() == 2) {
      const NodeMap<Node> names = to_;
      const NodeMap<char> taken = taken_;
      const bool may_stay = kind_of(from.arg(0)) == kind_of(to.arg(0)),
                 may_change = kind_of(from.arg(0)) == kind_of(to.arg(1));
      if (may_stay && in_order(0, 1)) return true;
      to_ = names, taken_ = taken;
      return may_change && in_order(1, 0);
    }
    for (std::size_t i = 0; i < from.arg_count(); ++i)
      if (!matches(from.arg(i), to.arg(i))) return false;
    return true;
  }

  // Equal for nodes that may match.
  std::uint64_t kind_of(Node node) {
    if (const std::uint64_t* known = kinds_.find(node)) return *known;
    for (Node n : toposort(node)) {
      if (kinds_.contains(n)) continue;
      std::uint64_t kind = hash_all(static_cast<int>(n.op()), static_cast<int>(n.arg_count()));
      if (n.dtype().is_index())
        kind = 1;
      else if (n.is(Op::Buffer))
        kind = hash_all(reinterpret_cast<std::uintptr_t>(n.get()));
      else if (is_commutative(n.op()) && n.arg_count() == 2)
        kind = hash_all(kind, *kinds_.find(n.arg(0)) + *kinds_.find(n.arg(1)));
      else
        for (Node a : n.args()) kind = hash_all(kind, *kinds_.find(a));
      kinds_[n] = kind;
    }
    return *kinds_.find(node);
  }

  const RuleChanges& rules_;
  NodeMap<Node> to_;
  NodeMap<char> taken_;
  NodeMap<std::uint64_t> kinds_;
};

// `from`'s rows and tiles as those of `to`.
bool bind_loops(const FoldKernel& from, const FoldKernel& to, Renaming& names) {
  if (from.outside.size() != to.outside.size() || from.tile.arg(0) != to.tile.arg(0)) return false;
  for (std::size_t i = 0; i < from.outside.size(); ++i)
    if (from.outside[i].arg(0) != to.outside[i].arg(0) || !names.bind(from.outside[i], to.outside[i]))
      return false;
  return names.bind(from.tile, to.tile);
}

// Inside the fold, further ranges of a component become those of an array (codegen/options/place_folds.h).
bool can_be_arrays(const FoldKernel& k) {
  for (Node effect : k.effects)
    for (Node r : closed_ranges(effect))
      if (!contains(k.outside, r) && !r.arg(0).is_const()) return false;
  return true;
}

// `few` takes its values from the running values of `many`, which begin with its own.
std::optional<FoldKernel> take_components(const FoldKernel& few, const FoldKernel& many,
                                          const RuleChanges& rules) {
  if (components(few.fold) > components(many.fold)) return std::nullopt;
  Renaming names(rules);
  if (!bind_loops(few, many, names)) return std::nullopt;
  for (std::size_t i = 0; i < components(few.fold); ++i)
    if (first_of(few.fold, i) != first_of(many.fold, i) ||
        !names.matches(step_of(few.fold, i), step_of(many.fold, i)))
      return std::nullopt;
  NodeMap<Node> values = names.map();
  for (std::size_t i = 0; i < components(few.fold); ++i) values[get_of(few.fold, i)] = get_of(many.fold, i);
  FoldKernel out = many;
  for (Node effect : few.effects) out.effects.push_back(substitute(effect, values));
  return out;
}

// The panel that the loop fills, once it is full.
Node filled_panel(const FoldKernel& k) {
  for (Node n : toposort(k.fold)) {
    if (!n.is(Op::Load) || !n.arg(0).is(Op::After) || !n.arg(0).arg(0).is(Op::Define)) continue;
    for (Node effect : n.arg(0).args().subspan(1))
      if (effect.is(Op::End) && contains(closed_ranges(effect), k.fill)) return n.arg(0);
  }
  return Node();
}

// Fills the first panel of `second` from the panel of `first`, if it is computed from the same values.
std::optional<FoldKernel> fill_from(const FoldKernel& first, const FoldKernel& second,
                                    const RuleChanges& rules) {
  if (first.fill.arg(0) != second.fill.arg(0)) return std::nullopt;
  Node panel = filled_panel(first);
  if (!panel) return std::nullopt;
  std::vector<Node> parts = toposort(second.factor);
  for (std::size_t i = parts.size(); i-- > 0;) {
    Renaming names(rules);
    if (!bind_loops(second, first, names) || !names.bind(second.fill, first.fill)) return std::nullopt;
    if (!names.matches(parts[i], first.factor)) continue;
    const std::size_t before = components(first.fold), added = components(second.fold);
    NodeMap<Node> to, values;
    Renaming loops(rules);
    bind_loops(second, first, loops);
    for (const auto& [from, node] : loops.map()) to[from] = node;
    to[parts[i]] = load(panel, second.fill);
    for (std::size_t c = 0; c < added; ++c)
      to[carry_of(second.fold, c, c)] = carry_of(second.fold, c, before + c);
    SmallVector<Node, 16> args;
    for (std::size_t c = 0; c < before; ++c) args.push_back(first_of(first.fold, c));
    for (std::size_t c = 0; c < added; ++c) args.push_back(first_of(second.fold, c));
    for (std::size_t c = 0; c < before; ++c) args.push_back(step_of(first.fold, c));
    for (std::size_t c = 0; c < added; ++c) args.push_back(substitute(step_of(second.fold, c), to));
    args.push_back(first.tile);
    AttrData name{"", {first.fold.ints()[0], static_cast<std::int64_t>(before + added), 0}};
    FoldKernel out = first;
    out.outputs += second.outputs;
    out.fold = intern(Op::Fold, dtypes::Void, args, Attr::of(name));
    out.effects.clear();
    for (std::size_t c = 0; c < before; ++c) values[get_of(first.fold, c)] = get_of(out.fold, c);
    for (Node effect : first.effects) out.effects.push_back(substitute(effect, values));
    for (std::size_t c = 0; c < added; ++c) to[get_of(second.fold, c)] = get_of(out.fold, before + c);
    for (Node effect : second.effects) out.effects.push_back(substitute(effect, to));
    return out;
  }
  return std::nullopt;
}

// The step of the number of outputs of a matrix unit's fragments, and the most outputs that fit the registers
// together with two tiles of scores.
constexpr std::int64_t kFragmentOutputs = 64, kMostFragmentOutputs = 256;

std::int64_t fragment_outputs(std::int64_t outputs) {
  return (outputs + kFragmentOutputs - 1) / kFragmentOutputs * kFragmentOutputs;
}

}  // namespace

std::optional<FoldKernel> fold_kernel(const PlannedStep& step) {
  if (!step.fold || !step.sink) return std::nullopt;
  FoldKernel out;
  for (Node n : toposort(step.sink))
    if (n.is(Op::Fold)) {
      if (out.fold) return std::nullopt;
      out.fold = n;
    }
  if (!out.fold) return std::nullopt;
  out.effects.assign(step.sink.args().begin(), step.sink.args().end());
  out.form = step.fold->form;
  out.tile = step.fold->tile;
  out.fill = step.fold->fill;
  out.factor = step.fold->scores;
  out.outputs = fragment_outputs(step.fold->outputs);
  if (!contains(closed_ranges(out.fold), out.tile)) return std::nullopt;
  out.outside.assign(step.fold->outside.begin(), step.fold->outside.end());
  return out;
}

std::optional<FoldKernel> join_folds(const FoldKernel& a, const FoldKernel& b, const RuleChanges& rules) {
  if ((a.form == FoldForm::Sum) != (b.form == FoldForm::Sum)) return std::nullopt;
  if (!can_be_arrays(a) || !can_be_arrays(b)) return std::nullopt;
  const bool sums = a.form == FoldForm::Sum;
  if (sums && a.outputs + b.outputs > kMostFragmentOutputs) return std::nullopt;
  std::optional<FoldKernel> out = sums ? fill_from(a, b, rules) : take_components(b, a, rules);
  if (!out) out = sums ? fill_from(b, a, rules) : take_components(a, b, rules);
  return out;
}

}  // namespace lathe
