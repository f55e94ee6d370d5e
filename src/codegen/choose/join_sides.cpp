#include "codegen/choose/join_sides.h"

#include <algorithm>

#include "base/error.h"
#include "codegen/choose/lane_gain.h"
#include "codegen/options/option_state.h"
#include "ir/build.h"
#include "ir/ranges.h"

namespace lathe {
namespace {

using Ranges = std::vector<std::size_t>;  // among the facts, outermost first

bool moves_by_one(const KernelFacts& facts, std::size_t r, bool stores) {
  return std::any_of(facts.accesses.begin(), facts.accesses.end(),
                     [&](const AccessFacts& a) { return a.is_store == stores && a.strides[r] == 1; });
}

Node with_id(Node kernel, std::int64_t id) {
  for (Node r : all_ranges(kernel))
    if (range_id(r) == id) return r;
  return Node();
}

int position_of(Node kernel, std::int64_t id) {
  int at = 0;
  for (Node r : all_ranges(kernel)) {
    if (range_id(r) == id) return at;
    ++at;
  }
  return -1;
}

}  // namespace

std::optional<JoinedSides> join_sides(Node kernel, const KernelFacts& facts, const Target& target) {
  if (!facts.factors[0] || facts.reduces != 1) return std::nullopt;
  Ranges sides[3];  // of the first factor alone, of the second, of the reduce
  for (std::size_t r = 0; r < facts.ranges.size(); ++r) {
    const bool x = facts.depends(facts.factors[0], r), y = facts.depends(facts.factors[1], r),
               reduce = facts.ranges[r].kind == RangeKind::Reduce;
    if (reduce ? !x || !y : x == y) continue;
    if (!can_split(facts.ranges[r]) || facts.ranges[r].carries_tuple) return std::nullopt;
    sides[reduce ? 2 : x ? 0 : 1].push_back(r);
  }
  if (std::any_of(std::begin(sides), std::end(sides), [](const Ranges& s) { return s.empty(); }) ||
      std::all_of(std::begin(sides), std::end(sides), [](const Ranges& s) { return s.size() == 1; }))
    return std::nullopt;
  const bool swapped = std::any_of(sides[0].begin(), sides[0].end(),
                                   [&](std::size_t r) { return moves_by_one(facts, r, true); });
  JoinedSides made{{}, kernel, Node()};
  for (Ranges& side : sides) {
    std::stable_partition(side.begin(), side.end(),
                          [&](std::size_t r) { return !moves_by_one(facts, r, false); });
    const std::int64_t first = range_id(facts.ranges[side[0]].range);
    for (std::size_t i = 1; i < side.size(); ++i) {
      const Opt join{OptOp::JOIN,
                     position_of(made.kernel, first),
                     {position_of(made.kernel, range_id(facts.ranges[side[i]].range))}};
      OptionState state(made.kernel, target);
      if (!state.takes(join)) return std::nullopt;
      made.kernel = state.kernel();
      made.joins.push_back(join);
    }
  }
  made.columns = with_id(made.kernel, range_id(facts.ranges[sides[swapped ? 0 : 1][0]].range));
  return made;
}

}  // namespace lathe
