#include "engine/sample_positions.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "codegen/options/option_state.h"
#include "engine/store_elements.h"
#include "ir/build.h"
#include "ir/ranges.h"

namespace lathe::engine {
namespace {

constexpr std::int64_t kWhole = 96;       // outputs of a store that are all looked at
constexpr std::size_t kMostOfStore = 64;  // positions of a larger one
constexpr std::size_t kRandom = 12;       // of them, at random

bool is_index_expression(Node expression) {
  return std::ranges::all_of(toposort(expression), [](Node n) {
    return n.is_const() || n.is(Op::Var) || n.is(Op::Range) || n.is(Op::Cast) || is_scalar_op(n.op());
  });
}

// An expression over variables and ranges where these are all 0 but one, which is 1.
Node with_ranges(Node expression, Node one) {
  NodeMap<Node> numbers;
  for (Node n : toposort(expression))
    if (n.is(Op::Range)) numbers[n] = index_const(n == one ? 1 : 0);
  return substitute(expression, numbers);
}
std::int64_t value_with(Node expression, Node one, Bindings bindings) {
  return evaluate_index(with_ranges(expression, one), bindings);
}
bool has_variables(Node expression) {
  return std::ranges::any_of(toposort(expression), [](Node n) { return n.is(Op::Var); });
}

std::vector<std::int64_t> units_of(const OptionState& state, std::size_t origin, Bindings bindings) {
  std::set<std::int64_t> units;
  const Node index = state.origins()[origin].index;
  if (!is_index_expression(index)) return {};
  const std::int64_t base = value_with(index, Node(), bindings);
  for (const Axis& axis : state.axes()) {
    if (static_cast<std::size_t>(axis.origin) != origin || !is_index_expression(axis.extent)) continue;
    const std::int64_t step = value_with(index, axis.stand_in, bindings) - base;
    const std::int64_t extent = value_with(axis.extent, Node(), bindings);
    for (const std::int64_t unit : {step, step * extent})
      if (unit > 1) units.insert(unit);
  }
  return {units.begin(), units.end()};
}

// The same without what depends on variables.
void add_fixed_units(const OptionState& state, std::size_t origin, std::set<std::int64_t>& units) {
  const Node index = state.origins()[origin].index;
  if (!is_index_expression(index)) return;
  const Node base = with_ranges(index, Node());
  for (const Axis& axis : state.axes()) {
    if (static_cast<std::size_t>(axis.origin) != origin) continue;
    const Node one = with_ranges(index, axis.stand_in);
    if (has_variables(base) || has_variables(one)) continue;
    const std::int64_t step = evaluate_index(one, {}) - evaluate_index(base, {});
    const std::int64_t extent = axis.extent.is_const() ? axis.extent.const_int() : 1;
    for (const std::int64_t unit : {step, step * extent})
      if (unit > 1) units.insert(unit);
  }
}

// The kernel's state after its options; nothing where it does not take them.
std::optional<OptionState> state_with(Node kernel, std::span<const Opt> options, const Target& target) {
  OptionState state(kernel, target);
  for (const Opt& opt : options)
    if (!state.takes(opt)) return std::nullopt;
  return state;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(hash_mix(seed ^ 0x6a09e667f3bcc909ull)) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(hash_mix(state_ += 0x9e3779b97f4a7c15ull) %
                                     static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

// Both sides of the first and of the last edge of every unit, smallest unit first, and the ends.
std::vector<std::int64_t> edges(std::int64_t extent, const std::vector<std::int64_t>* units) {
  std::vector<std::int64_t> out;
  auto add = [&](std::int64_t v) {
    if (v >= 0 && v < extent && std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
  };
  add(extent - 1);
  if (units != nullptr)
    for (const std::int64_t unit : *units) {
      const std::int64_t last = (extent - 1) / unit * unit;
      for (const std::int64_t v : {last, last - 1, unit - 1, unit}) add(v);
    }
  add(1);
  add(0);
  return out;
}

class StorePositions {
 public:
  StorePositions(const reference::StoreAxes& store, std::size_t number, const SplitUnits& units,
                 std::uint64_t seed)
      : store_(store), number_(number), random_(hash_combine(seed, number)) {
    double outputs = 1;
    for (const std::int64_t extent : store.extents) {
      if (extent <= 0) return;
      outputs *= static_cast<double>(extent);
    }
    if (outputs <= kWhole) {
      whole(static_cast<std::int64_t>(outputs));
      return;
    }
    for (std::size_t i = 0; i < store.ranges.size(); ++i)
      edges_.push_back(edges(store.extents[i], units.find(store.ranges[i])));
    corners();
    along_axes();
    for (std::size_t i = 0; i < 4 * kRandom && list.size() < kMostOfStore; ++i) add(anywhere());
  }

  std::vector<reference::Position> list;

 private:
  using At = std::vector<std::int64_t>;

  void whole(std::int64_t outputs) {
    for (std::int64_t i = 0; i < outputs; ++i) {
      At at(store_.extents.size());
      std::int64_t rest = i;
      for (std::size_t d = at.size(); d-- > 0;) {
        at[d] = rest % store_.extents[d];
        rest /= store_.extents[d];
      }
      list.push_back({number_, std::move(at)});
    }
  }

  void corners() {
    const At first(store_.extents.size(), 0);
    At last = first;
    for (std::size_t d = 0; d < last.size(); ++d) last[d] = store_.extents[d] - 1;
    add(first);
    add(last);
    add(anywhere());
    for (std::size_t d = 0; d < last.size(); ++d) {
      At at = first;
      at[d] = last[d];
      add(at);
    }
  }

  // One axis at an edge, the others anywhere: the axes in turn, so that a prefix of the list has some of
  // each.
  void along_axes() {
    for (std::size_t round = 0; list.size() < kMostOfStore - kRandom; ++round) {
      bool any = false;
      for (std::size_t d = 0; d < edges_.size(); ++d) {
        if (round >= edges_[d].size()) continue;
        any = true;
        At at = anywhere();
        at[d] = edges_[d][round];
        add(std::move(at));
      }
      if (!any) return;
    }
  }

  At anywhere() {
    At at;
    for (const std::int64_t extent : store_.extents) at.push_back(random_.below(extent));
    return at;
  }

  void add(At at) {
    const bool known = std::ranges::any_of(list, [&](const reference::Position& p) { return p.at == at; });
    if (!known) list.push_back({number_, std::move(at)});
  }

  const reference::StoreAxes& store_;
  std::size_t number_;
  Random random_;
  std::vector<std::vector<std::int64_t>> edges_;
};

// Of several stores to a buffer a later one, in the order of the program, may write over what an earlier one
// wrote, and any of them may write what a closed gate leaves alone. Leaves those positions of a store at
// which what it leaves is what the kernel leaves.
void drop_overwritten(std::span<const reference::StoreAxes> stores, std::size_t s, Bindings bindings,
                      std::vector<reference::Position>& list) {
  const bool gated = stores[s].store.arg_count() > 3;
  std::vector<StoreElements> others;
  const StoreElements mine(stores[s], bindings);
  for (std::size_t o = 0; o < stores.size(); ++o) {
    if (o == s || stores[o].slot != stores[s].slot || (o < s && !gated)) continue;
    StoreElements other(stores[o], bindings);
    if (other.may_reach_elements_of(mine)) others.push_back(std::move(other));
  }
  if (others.empty()) return;
  std::erase_if(list, [&](const reference::Position& position) {
    const std::optional<std::int64_t> element = mine.at(position.at);
    return !element ||
           std::ranges::any_of(others, [&](const StoreElements& other) { return other.may_reach(*element); });
  });
}

}  // namespace

SplitUnits split_units(Node kernel, std::span<const Opt> options, const Target& target, Bindings bindings) {
  SplitUnits out;
  const std::optional<OptionState> state = state_with(kernel, options, target);
  if (!state) return out;  // the positions without edges still tell something
  // A matrix unit may stand for another kernel, whose output ranges have the same numbers.
  const std::vector<Node> ranges = all_ranges(kernel);
  for (std::size_t i = 0; i < state->origins().size(); ++i) {
    const Node range = state->origins()[i].range;
    for (const Node& mine : ranges)
      if (range_id(mine) == range_id(range)) out[mine] = units_of(*state, i, bindings);
  }
  return out;
}

std::vector<std::int64_t> fixed_split_units(Node kernel, std::span<const Opt> options, const Target& target) {
  std::set<std::int64_t> units;
  if (const std::optional<OptionState> state = state_with(kernel, options, target))
    for (std::size_t i = 0; i < state->origins().size(); ++i)
      if (!state->origins()[i].range.arg(0).is_const()) add_fixed_units(*state, i, units);
  return {units.begin(), units.end()};
}

std::vector<reference::Position> sample_positions(std::span<const reference::StoreAxes> stores,
                                                  const SplitUnits& units, Bindings bindings,
                                                  std::uint64_t seed) {
  std::vector<std::vector<reference::Position>> lists;
  std::size_t longest = 0;
  for (std::size_t s = 0; s < stores.size(); ++s) {
    lists.push_back(std::move(StorePositions(stores[s], s, units, seed).list));
    drop_overwritten(stores, s, bindings, lists.back());
    longest = std::max(longest, lists.back().size());
  }
  std::vector<reference::Position> out;
  for (std::size_t i = 0; i < longest; ++i)
    for (std::vector<reference::Position>& list : lists)
      if (i < list.size()) out.push_back(std::move(list[i]));
  return out;
}

}  // namespace lathe::engine
