#include "codegen/kernel/lanes.h"

#include <algorithm>

#include "base/small_vector.h"
#include "codegen/kernel/panel_layout.h"
#include "ir/build.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"

namespace lathe {
namespace {

struct Candidate {
  std::size_t which;
  double score =
      0;  // accesses that gain from lanes along the range, less those that lose, by how often they happen
  std::uint16_t lanes = 1;
};

// The widest power of two that divides the extent and fits a register with the widest element the range
// touches.
std::uint16_t lanes_for(std::int64_t extent, int vector_bytes, int element_bytes) {
  std::int64_t lanes = 1;
  while (lanes * 2 * element_bytes <= vector_bytes && extent % (lanes * 2) == 0) lanes *= 2;
  return static_cast<std::uint16_t>(lanes);
}

// How many places steps of ranges in registers are at. Those that move along together (x + k of a window)
// meet at most of theirs, which are one access each.
double places(Node index, std::span<const Node> ranges) {
  struct Reach {
    std::int64_t step;
    double places;
  };
  SmallVector<Reach, 4> reaches;
  double n = 1;
  for (Node r : ranges) {
    const auto extent = static_cast<double>(std::max<std::int64_t>(r.arg(0).hi(), 1));
    std::int64_t step = 0;
    if (!is_affine(index, r, step)) {
      n *= extent;
      continue;
    }
    step = step < 0 ? -step : step;
    auto known =
        std::find_if(reaches.begin(), reaches.end(), [&](const Reach& reach) { return reach.step == step; });
    if (known == reaches.end())
      reaches.push_back({step, extent});
    else
      known->places += extent - 1;
  }
  for (const Reach& reach : reaches) n *= reach.places;
  return n;
}

// How often each load and store happens. One inside a reduce's loop happens for every step of all loops
// around it; ranges in registers count only where it depends on them.
NodeMap<double> times_executed(std::span<const Node> order) {
  NodeMap<double> times;
  auto count = [](Node access, std::span<const Node> around) {
    double n = 1;
    SmallVector<Node, 4> together;
    for (Node r : around) {
      if (!in_registers(r))
        n *= static_cast<double>(std::max<std::int64_t>(r.arg(0).hi(), 1));
      else if (depends_on(access, r))
        together.push_back(r);
    }
    return n * places(access.arg(1), together);
  };
  for (Node n : order)
    if (n.is(Op::Load) || n.is(Op::Store)) times.try_emplace(n, count(n, ranges_of(n)));
  for (Node reduce : order) {
    if (!reduce.is(Op::Reduce)) continue;
    for (Node n : toposort(reduce.arg(0))) {
      if (!n.is(Op::Load)) continue;
      bool inside = false;
      for (Node r : closed_ranges(reduce)) inside |= !in_registers(r) && depends_on(n, r);
      if (!inside) continue;
      // With those that a reduce within this one closes.
      std::vector<Node> around(ranges_of(reduce.arg(0)).begin(), ranges_of(reduce.arg(0)).end());
      for (Node r : ranges_of(n))
        if (std::find(around.begin(), around.end(), r) == around.end()) around.push_back(r);
      times[n] = std::max(times[n], count(n, around));
    }
  }
  return times;
}

// The bytes that are joined by shifts, each in its place; false where a part is something else.
bool place_bytes(Node n, std::vector<Node>& bytes) {
  if (n.is(Op::Or)) return place_bytes(n.arg(0), bytes) && place_bytes(n.arg(1), bytes);
  std::int64_t place = 0;
  if (n.is(Op::Shl)) {
    if (!n.arg(1).is_const() || n.arg(1).const_int() % 8 != 0) return false;
    place = n.arg(1).const_int() / 8;
    n = n.arg(0);
  }
  if (!n.is(Op::Cast) || !n.arg(0).is(Op::Load) || n.arg(0).dtype() != dtypes::UInt8) return false;
  if (place < 0 || place >= std::ssize(bytes) || bytes[static_cast<std::size_t>(place)]) return false;
  bytes[static_cast<std::size_t>(place)] = n.arg(0);
  return true;
}

}  // namespace

std::vector<Node> joined_neighbours(Node n) {
  if (n.is(Op::Pack)) {
    if (packed_neighbours(n) > 1) return {n.args().begin(), n.args().end()};
    return {};
  }
  if (!n.is(Op::Or) || !n.dtype().is_unsigned() || n.dtype().lanes > 1) return {};
  std::vector<Node> bytes(static_cast<std::size_t>(n.dtype().bytes()));
  if (!place_bytes(n, bytes)) return {};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    Node first = bytes[0], byte = bytes[i];
    if (!byte || byte.arg(0) != first.arg(0) || byte.arg_count() != first.arg_count()) return {};
    if (byte.arg_count() > 2 && byte.arg(2) != first.arg(2)) return {};
    Linear apart = linear(byte.arg(1));
    apart.add(first.arg(1), -1);
    if (!apart.terms.empty() || apart.constant != static_cast<std::int64_t>(i)) return {};
  }
  return bytes;
}

bool is_affine(Node index, Node range, std::int64_t& stride) {
  stride = 0;
  if (!depends_on(index, range)) return true;
  for (const Term& t : linear(index).terms) {
    if (t.node == range)
      stride = t.coefficient;
    else if (depends_on(t.node, range))
      return false;
  }
  return true;
}

std::int64_t elements_apart(Node load, Node range, std::span<const Node> beside) {
  Node index = load.arg(1);
  std::int64_t every = 0;
  if (load.dtype().is_bool() || load.dtype().lanes > 1 || !is_affine(index, range, every)) return 0;
  if (every < 2 || every > kMostElementsApart) return 0;
  if (load.arg_count() > 2 && depends_on(load.arg(2), range)) return 0;
  if (memory_size(base_memory(load.arg(0))) % every != 0) return 0;
  const Linear sum = linear(index);
  const bool whole = std::all_of(sum.terms.begin(), sum.terms.end(), [&](const Term& t) {
    const bool known = std::find(beside.begin(), beside.end(), t.node) != beside.end();
    // Of a panel that each of those steps writes a part of, what is between may not be written yet.
    if (known) return t.coefficient > 0 && !depends_on(load.arg(0), t.node);
    return t.coefficient * known_divisor(t.node) % every == 0;
  });
  return whole && sum.constant >= 0 ? every : 0;
}

bool may_mask(DType element, const Target& target) {
  return target.vectors && element.lanes == 1 && !element.is_bool() &&
         (target.small_masks || element.bytes() >= 4);
}

std::int64_t masked_apart(Node load, Node range, const Target& target) {
  std::int64_t every = 0;
  if (!may_mask(load.dtype(), target) || !is_affine(load.arg(1), range, every)) return 0;
  if (every < 2 || every > kMostElementsApart || depends_on(load.arg(0), range)) return 0;
  if (load.arg_count() > 2 && depends_on(load.arg(2), range))
    for (Node n : toposort(load.arg(2)))
      if (n.is(Op::Load)) return 0;
  return every;
}

bool is_woven(Node store, Node range, std::span<const Node> beside) {
  std::int64_t every = 0;
  if (!store.is(Op::Store) || store.arg(2).dtype().is_bool() || !is_affine(store.arg(1), range, every))
    return false;
  auto gated = [&](Node r) { return store.arg_count() > 3 && depends_on(store.arg(3), r); };
  if (every < 2 || every > kMostElementsApart || gated(range)) return false;
  return std::any_of(beside.begin(), beside.end(), [&](Node r) {
    std::int64_t step = 0;
    return r != range && r.arg(0).is_const_int(every) && is_affine(store.arg(1), r, step) && step == 1 &&
           !gated(r);
  });
}

namespace {

// Steps that add up lanes along the range for every step of a reduce around the one that closes it. Where
// none stands around it they are added once for an output.
double lanes_added(Node reduce, Node range) {
  const auto closed = closed_ranges(reduce);
  if (std::find(closed.begin(), closed.end(), range) == closed.end()) return 0;
  constexpr double kSteps = 6;  // a shuffle and an addition for each halving
  double times = kSteps;
  bool inside = false;
  for (Node r : ranges_of(reduce)) {
    inside |= range_kind(r) == RangeKind::Reduce || range_kind(r) == RangeKind::Unroll;
    times *= static_cast<double>(std::max<std::int64_t>(r.arg(0).hi(), 1));
  }
  return inside ? times : 0;
}

// What lanes along one of the ranges in registers would gain in loads and stores, and how many fit.
Candidate candidate_for(std::size_t which, const std::vector<ExpandedRange>& all,
                        const std::vector<Node>& order, const NodeMap<double>& executed,
                        const NodeMap<std::int64_t>& words, const Target& target) {
  Node r = all[which].range;
  Candidate c{which};
  int element_bytes = 1;
  std::vector<Node> registers;
  for (const ExpandedRange& e : all) registers.push_back(e.range);
  for (Node n : order) {
    bool memory = n.is(Op::Load) || n.is(Op::Store);
    if (n.is(Op::Reduce)) c.score -= lanes_added(n, r);
    if (!depends_on(n, r)) continue;
    if (memory || n.is(Op::Cast) || n.is(Op::Reduce)) {
      DType dtype = n.is(Op::Store) ? n.arg(2).dtype() : n.dtype();
      if (!dtype.is_index()) element_bytes = std::max(element_bytes, dtype.bytes());
    }
    if (!memory) continue;
    double times = *executed.find(n);
    std::int64_t stride = 0;
    bool affine = is_affine(n.arg(1), r, stride);
    // All the loads of one word are one load.
    bool in_words = false;
    if (const std::int64_t* parts = words.find(n)) {
      times /= static_cast<double>(*parts);
      in_words = stride % *parts == 0;
      if (in_words) stride /= *parts;
    }
    // Words a little apart are loaded with those between them, which other steps want, for a shuffle or two;
    // so are elements.
    const bool spread = words.contains(n) ? in_words && stride > 1 && stride <= kMostWordsApart
                                          : n.is(Op::Load) && elements_apart(n, r, registers) > 0;
    // Others along a reduce are loaded one by one, as they are without lanes, and put together.
    const bool one_by_one = words.contains(n) && affine && range_kind(r) == RangeKind::Unroll;
    if (affine && stride == 1)
      c.score += (n.is(Op::Store) ? 2 : 1) * times;
    else if (affine && (spread || is_woven(n, r, registers)))
      c.score += times * 0.75;
    else if (n.is(Op::Load) && !words.contains(n) && masked_apart(n, r, target) > 0)
      c.score += times * 0.5;
    else if ((!affine || stride != 0) && !one_by_one)
      c.score -= 2 * times;
  }
  c.lanes = lanes_for(all[which].copies, target.vector_bytes, element_bytes);
  return c;
}

}  // namespace

std::vector<ExpandedRange> choose_lanes(Node kernel, const Target& target) {
  std::vector<ExpandedRange> all;
  std::vector<Node> order = toposort(kernel);
  for (Node n : order)
    if (n.is(Op::Range) && in_registers(n)) all.push_back({n, n.arg(0).const_int(), 1});
  std::sort(all.begin(), all.end(), [](const ExpandedRange& a, const ExpandedRange& b) {
    return range_id(a.range) < range_id(b.range);
  });
  if (!target.vectors || all.empty()) return all;

  const NodeMap<double> executed = times_executed(order);
  NodeMap<std::int64_t> words;  // loads whose neighbours are packed into one word, and how many
  for (Node n : order)
    for (const std::vector<Node> parts = joined_neighbours(n); Node part : parts)
      words[part] = std::ssize(parts);
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Candidate c = candidate_for(i, all, order, executed, words, target);
    if (c.score > 0 && c.lanes > 1) candidates.push_back(c);
  }
  // Best first: lanes also divide the arithmetic, so few of them have to gain much more in memory. Of equals
  // the inner one.
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    const double gain_a = a.score * a.lanes, gain_b = b.score * b.lanes;
    return gain_a != gain_b ? gain_a > gain_b : a.which > b.which;
  });
  std::vector<Node> taken;
  for (const Candidate& c : candidates) {
    Node r = all[c.which].range;
    bool free = true;  // no value may depend on two ranges with lanes
    for (Node other : taken)
      for (Node n : order) free &= !(depends_on(n, r) && depends_on(n, other));
    if (!free) continue;
    taken.push_back(r);
    all[c.which].lanes = c.lanes;
    all[c.which].copies /= c.lanes;
  }
  return all;
}

}  // namespace lathe
