#include "codegen/lower/expand.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/planted.h"
#include "base/small_vector.h"
#include "codegen/kernel/lanes.h"
#include "codegen/kernel/panel_layout.h"
#include "codegen/kernel/substitute.h"
#include "codegen/lower/index_offset.h"
#include "codegen/lower/masked_lanes.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;
using Mask = std::uint64_t;
constexpr std::size_t kAxesAtOnce = 64;  // as many as a mask has bits
using Coordinate = std::array<std::int64_t, kAxesAtOnce>;

struct Stride {
  int axis;
  std::int64_t step;
};

// What became of a node. Its copies run over the axes of `mask`, the last fastest. Beside those, an index may
// grow by a fixed step with an axis: it then is a copy plus a constant.
struct Copies {
  std::size_t first = 0;  // in the pool
  Mask mask = 0;
  Mask closed = 0;          // axes an effect has run over: users take all copies
  std::uint16_t lanes = 1;  // of each copy
  SmallVector<Stride, 4> grows;
};

// Elements that are loaded at once.
constexpr std::int64_t kMostLoaded = 512;

Mask bit(int axis) { return Mask{1} << axis; }

class Expander {
 public:
  Expander(Node kernel, std::vector<ExpandedRange> axes, const Lowering& lowering)
      : kernel_(kernel), axes_(std::move(axes)), target_(lowering.target), partial_sums_(lowering.invariant) {
    check_internal(axes_.size() <= kAxesAtOnce, "expand", "more unrolled ranges than a mask has bits");
    for (std::size_t i = 0; i < axes_.size(); ++i) axis_of_.try_emplace(axes_[i].range, static_cast<int>(i));
    ids_ = fresh_ids(kernel);
  }

  Node run() {
    std::vector<Node> order = toposort(kernel_);
    for (Node n : order)
      if (n.is(Op::Fold)) plan_components(n);
    for (Node n : order) {
      Copies copies = expand(n);
      done_.try_emplace(n, std::move(copies));
    }
    return pool_[done_.find(kernel_)->first];
  }

 private:
  // ---- coordinates

  std::int64_t count(Mask mask) const {
    std::int64_t n = 1;
    for (std::size_t a = 0; a < axes_.size(); ++a)
      if (mask >> a & 1) n *= axes_[a].copies;
    return n;
  }
  // Steps to the next coordinate within the mask; false after the last.
  bool advance(Mask mask, Coordinate& at) const {
    for (std::size_t a = axes_.size(); a-- > 0;) {
      if ((mask >> a & 1) == 0) continue;
      if (++at[a] < axes_[a].copies) return true;
      at[a] = 0;
    }
    return false;
  }
  template <class Visit>
  void each(Mask mask, Coordinate& at, Visit visit) const {
    do visit();
    while (advance(mask, at));
  }

  // ---- a node at a coordinate

  const Copies& of(Node n) const { return *done_.find(n); }

  Node scalar_at(Node n, const Coordinate& at) const {
    const Copies& c = of(n);
    if (c.mask == 0 && c.grows.empty()) return pool_[c.first];
    std::size_t i = 0;
    for (std::size_t a = 0; a < axes_.size(); ++a)
      if (c.mask >> a & 1)
        i = i * static_cast<std::size_t>(axes_[a].copies) + static_cast<std::size_t>(at[a]);
    std::int64_t offset = 0;
    for (const Stride& s : c.grows) {
      auto a = static_cast<std::size_t>(s.axis);
      offset += s.step * at[a] * (planted(Fault::ExpandCopies) ? 1 : axes_[a].lanes);
    }
    return plus(pool_[c.first + i], offset);
  }
  // The step from lane to lane of a value held as one scalar.
  std::int64_t lane_step(Node n) const {
    for (const Stride& s : of(n).grows)
      if (axes_[static_cast<std::size_t>(s.axis)].lanes > 1) return s.step;
    return 0;
  }
  Node vector_at(Node n, const Coordinate& at, std::uint16_t lanes) const {
    Node value = scalar_at(n, at);
    std::int64_t step = lane_step(n);
    if (step == 0 || value.dtype().lanes > 1) return splat(value, lanes);
    Node growth = iota(dtypes::Index, lanes);
    if (step != 1 && !planted(Fault::ExpandLanes)) growth = growth * splat(index_const(step), lanes);
    return splat(value, lanes) + growth;
  }

  // ---- how nodes expand

  Mask dependence(Node n) const {  // every axis a user of n must be copied for
    const Copies& c = of(n);
    Mask mask = c.mask & ~c.closed;
    for (const Stride& s : c.grows) mask |= bit(s.axis);
    return mask;
  }
  std::uint16_t lanes_of(Node n) const {  // of a user of n
    const Copies& c = of(n);
    if (n.dtype().lanes > 1) return 1;  // it had them before: a fragment, or lanes of ranges expanded earlier
    if (c.lanes > 1) return c.lanes;
    for (const Stride& s : c.grows)
      if (axes_[static_cast<std::size_t>(s.axis)].lanes > 1)
        return axes_[static_cast<std::size_t>(s.axis)].lanes;
    return 1;
  }
  Mask without_single(Mask mask) const {  // an axis that is all lanes needs no copies
    for (std::size_t a = 0; a < axes_.size(); ++a)
      if (axes_[a].copies == 1) mask &= ~bit(static_cast<int>(a));
    return mask;
  }

  template <class Make>
  Copies fill(Mask mask, std::uint16_t lanes, Make make) {
    Copies out;
    out.mask = without_single(mask);
    out.lanes = lanes;
    Nodes made;
    Coordinate at{};
    each(out.mask, at, [&] { made.push_back(make(at)); });
    out.first = pool_.size();
    pool_.insert(pool_.end(), made.begin(), made.end());
    return out;
  }
  Copies leaf(Node n) {
    return fill(0, 1, [&](const Coordinate&) { return n; });
  }

  Copies expand(Node n) {
    if (const int* axis = axis_of_.find(n)) {
      Copies out = leaf(index_const(0));
      out.grows.push_back({*axis, 1});
      return out;
    }
    switch (n.op()) {
      case Op::Carry: return carry(n);
      case Op::Load:
        if (std::int64_t every = words_apart({&n, 1}, kMostElementsApart)) return spread_load({&n, 1}, every);
        return masked_apart(n) ? masked_load(n) : load_copies(n);
      case Op::Pack:
        if (!target_.vectors) break;  // neighbouring loads are joined later
        if (packed_neighbours(n) > 1 && !lanes_apart(n)) return packed_load(n);
        if (std::int64_t every = packed_neighbours(n) > 1 ? words_apart(n.args(), kMostWordsApart) : 0)
          return spread_load(n.args(), every);
        if (joined_far(n)) return joined_by_lane(n);
        break;
      case Op::Or:
        if (target_.vectors && joined_far(n)) return joined_by_lane(n);
        break;
      case Op::Store: return store_copies(n);
      case Op::Reduce: return reduce(n);
      case Op::Fold: return fold(n);
      case Op::Get: return get(n);
      case Op::End:
      case Op::After:
      case Op::Barrier:
      case Op::Sink: return effects(n);
      default: break;
    }
    if (n.arg_count() == 0) return leaf(n);
    bool plain = true;  // most of a kernel depends on no unrolled range and stays as it is
    for (Node a : n.args()) {
      const Copies& c = of(a);
      plain &= c.mask == 0 && c.grows.empty() && c.lanes == 1 && pool_[c.first] == a;
    }
    if (plain) return leaf(n);
    if (n.dtype().is_index() && (n.is(Op::Add) || (n.is(Op::Mul) && n.arg(1).is_const()))) return affine(n);
    if (n.is(Op::Less) && n.arg(0).dtype().is_index() && is_uniform(n)) return elementwise(n, 1);
    std::uint16_t lanes = 1;
    for (Node a : n.args()) lanes = std::max(lanes, lanes_of(a));
    return elementwise(n, lanes);
  }

  Copies elementwise(Node n, std::uint16_t lanes) {
    Mask mask = 0;
    for (Node a : n.args()) mask |= dependence(a);
    return fill(mask, lanes, [&](const Coordinate& at) {
      Nodes args;
      for (Node a : n.args()) args.push_back(lanes > 1 ? vector_at(a, at, lanes) : scalar_at(a, at));
      return rebuild(n, args);
    });
  }

  // Sums and constant multiples of indices grow evenly where their operands do.
  Copies affine(Node n) {
    Mask mask = 0;
    std::uint16_t lanes = 1;
    for (Node a : n.args()) mask |= of(a).mask, lanes = std::max(lanes, of(a).lanes);
    Copies out;
    SmallVector<Stride, 4> grows;
    for (std::size_t i = 0; i < n.arg_count(); ++i) {
      std::int64_t factor = n.is(Op::Mul) ? n.arg(1).int_attr() : 1;
      if (n.is(Op::Mul) && i == 1) break;
      for (const Stride& s : of(n.arg(i)).grows) {
        bool vector_here = lanes > 1 && axes_[static_cast<std::size_t>(s.axis)].lanes > 1;
        if ((mask & bit(s.axis)) != 0 || vector_here) {
          mask |= bit(s.axis);
          continue;
        }
        auto known =
            std::find_if(grows.begin(), grows.end(), [&](const Stride& g) { return g.axis == s.axis; });
        if (known == grows.end())
          grows.push_back({s.axis, s.step * factor});
        else
          known->step += s.step * factor;
      }
    }
    out = fill(mask, lanes, [&](const Coordinate& at) {
      Nodes args;
      for (Node a : n.args()) args.push_back(lanes > 1 ? vector_at(a, at, lanes) : scalar_at(a, at));
      return rebuild(n, args);
    });
    for (const Stride& s : grows)
      if (s.step != 0) out.grows.push_back(s);
    return out;
  }

  // i < c is one answer for all lanes where both c and the first lane's i are multiples of the lane count.
  bool is_uniform(Node less_node) {
    Node x = less_node.arg(0), y = less_node.arg(1);
    std::uint16_t lanes = lanes_of(x);
    if (lanes == 1 || of(x).lanes > 1 || lane_step(x) != 1 || !y.is_const() || y.const_int() % lanes != 0)
      return false;
    Coordinate at{};
    bool all = true;
    each(of(x).mask, at, [&] { all &= divides(lanes, scalar_at(x, at)); });
    for (const Stride& s : of(x).grows)
      if (axes_[static_cast<std::size_t>(s.axis)].lanes == 1) all &= s.step % lanes == 0;
    return all;
  }

  Copies load_copies(Node n) {
    Node index = n.arg(1), gate = n.arg_count() > 2 ? n.arg(2) : Node();
    Mask mask = dependence(n.arg(0)) | dependence(index) | (gate ? dependence(gate) : 0);
    std::uint16_t lanes = std::max(lanes_of(index), gate ? lanes_of(gate) : std::uint16_t{1});
    lanes = std::max(lanes, n.dtype().lanes);  // a fragment of a matrix unit
    bool contiguous = n.dtype().lanes > 1 || (of(index).lanes == 1 && lane_step(index) == 1);
    contiguous |= planted(Fault::ExpandWidth) && of(index).lanes == 1 && lane_step(index) > 1;
    return fill(mask, lanes, [&](const Coordinate& at) {
      Node where = lanes > 1 && !contiguous ? vector_at(index, at, lanes) : scalar_at(index, at);
      return load(scalar_at(n.arg(0), at), where, gate_at(gate, at), lanes);
    });
  }
  // Strided lanes that are not loaded with what is between them, but under masks.
  bool masked_apart(Node n) const {
    Node index = n.arg(1), gate = n.arg_count() > 2 ? n.arg(2) : Node();
    if (!may_mask(n.dtype(), target_) || lanes_of(n.arg(0)) > 1 || of(index).lanes > 1) return false;
    if (lane_step(index) < 2 || lane_step(index) > kMostElementsApart) return false;
    bool positions = true;
    Coordinate at{};
    if (gate) each(of(gate).mask, at, [&] { positions &= is_of_positions(scalar_at(gate, at)); });
    return positions;
  }
  Copies masked_load(Node n) {
    Node index = n.arg(1), gate = n.arg_count() > 2 ? n.arg(2) : Node();
    Mask mask = dependence(n.arg(0)) | dependence(index) | (gate ? dependence(gate) : 0);
    const std::uint16_t lanes = lanes_of(index);
    return fill(mask, lanes, [&](const Coordinate& at) {
      return masked_lanes(scalar_at(n.arg(0), at), scalar_at(index, at), gate_at(gate, at), lanes,
                          lane_step(index));
    });
  }
  // Words whose parts are neighbours in memory are read as they lie, where the words are neighbours too.
  bool lanes_apart(Node n) const {
    Node first = n.arg(0);
    const auto parts = static_cast<std::int64_t>(n.arg_count());
    if (first.arg_count() > 2 && lanes_of(first.arg(2)) > 1) return true;
    return of(first.arg(1)).lanes > 1 || (lanes_of(first.arg(1)) > 1 && lane_step(first.arg(1)) != parts);
  }
  Copies packed_load(Node n) {
    Node first = n.arg(0), index = first.arg(1), gate = first.arg_count() > 2 ? first.arg(2) : Node();
    Mask mask = dependence(first.arg(0)) | dependence(index) | (gate ? dependence(gate) : 0);
    const std::uint16_t lanes = lanes_of(index);
    const auto elements = static_cast<std::uint16_t>(lanes * n.arg_count());
    return fill(mask, lanes, [&](const Coordinate& at) {
      Node all = load(scalar_at(first.arg(0), at), scalar_at(index, at), gate_at(gate, at), elements);
      return pack({&all, 1});
    });
  }
  // Every how many words a lane has its own, where all words between them are in memory too and lie so that a
  // few loads bring them: else 0. `parts` are the loads of a word, one where a word is an element.
  std::int64_t words_apart(std::span<const Node> loads, std::int64_t most) const {
    Node first = loads[0], index = first.arg(1);
    const auto parts = static_cast<std::int64_t>(loads.size());
    const std::int64_t lanes = lanes_of(index), every = lane_step(index) / parts;
    if (of(index).lanes > 1 || lanes == 1 || lane_step(index) % parts != 0) return 0;
    if (first.dtype().is_bool() || first.dtype().lanes > 1) return 0;
    if (every < 2 || every > most || lanes * every * parts > kMostLoaded) return 0;
    if (first.arg_count() > 2 && lanes_of(first.arg(2)) > 1) return 0;
    const std::int64_t group = every * parts;
    Node memory = base_memory(first.arg(0));
    if (memory_size(memory) % group != 0) return 0;
    bool whole = true;
    Coordinate at{};
    each(of(index).mask, at, [&] {
      Node here = scalar_at(index, at);
      whole &= known_divisor(before_offset(here)) % group == 0 && offset_of(here) >= 0 &&
               offset_of(here) % parts == 0;
    });
    // Of a panel that each copy writes a part of, what is between may not be written yet.
    const Mask own = memory.is(Op::Define) ? dependence(first.arg(0)) : 0;
    for (const Stride& s : of(index).grows) {
      whole &= axes_[static_cast<std::size_t>(s.axis)].lanes > 1 || (s.step > 0 && s.step % parts == 0);
      whole &= (own & bit(s.axis)) == 0 || s.step % group == 0;
    }
    return whole ? every : 0;
  }
  // Whether a number is made of neighbours in memory, and lanes have theirs a fixed distance apart.
  bool joined_far(Node n) const {
    const std::vector<Node> parts = joined_neighbours(n);
    if (parts.empty()) return false;
    Node first = parts[0];
    if (first.arg_count() > 2 && lanes_of(first.arg(2)) > 1) return false;
    return of(first.arg(1)).lanes == 1 && lanes_of(first.arg(1)) > 1 && lanes_of(first.arg(0)) == 1 &&
           lane_step(first.arg(1)) != 0;
  }
  // Such numbers, each loaded whole.
  Copies joined_by_lane(Node n) {
    Node first = joined_neighbours(n)[0], index = first.arg(1),
         gate = first.arg_count() > 2 ? first.arg(2) : Node();
    Mask mask = dependence(first.arg(0)) | dependence(index) | (gate ? dependence(gate) : 0);
    const std::uint16_t lanes = lanes_of(index);
    const std::int64_t step = lane_step(index);
    return fill(mask, lanes, [&](const Coordinate& at) {
      Nodes own;
      for (std::int64_t i = 0; i < lanes; ++i) own.push_back(joined_at(n, at, i * step));
      return vec(own);
    });
  }
  Node joined_at(Node n, const Coordinate& at, std::int64_t offset) const {
    if (n.is(Op::Pack)) {
      Node first = n.arg(0);
      Node all = load_at(first, at, offset, static_cast<std::uint16_t>(n.arg_count()));
      return pack({&all, 1});
    }
    if (n.is(Op::Load)) return load_at(n, at, offset, 1);
    Nodes args;
    for (Node a : n.args()) args.push_back(a.is_const() ? a : joined_at(a, at, offset));
    return rebuild(n, args);
  }
  Node load_at(Node n, const Coordinate& at, std::int64_t offset, std::uint16_t elements) const {
    Node gate = n.arg_count() > 2 ? n.arg(2) : Node();
    return load(scalar_at(n.arg(0), at), plus(scalar_at(n.arg(1), at), offset), gate_at(gate, at), elements);
  }
  // All words from the first lane's to the last one's, of which every lane takes its own: others that are
  // wanted too, in other steps, are the same loads.
  Copies spread_load(std::span<const Node> loads, std::int64_t every) {
    Node first = loads[0], index = first.arg(1), gate = first.arg_count() > 2 ? first.arg(2) : Node();
    Mask mask = dependence(first.arg(0)) | dependence(index) | (gate ? dependence(gate) : 0);
    const std::uint16_t lanes = lanes_of(index);
    const auto parts = static_cast<std::int64_t>(loads.size());
    return fill(mask, lanes, [&](const Coordinate& at) {
      Node here = scalar_at(index, at);
      const std::int64_t offset = offset_of(here), inside = offset % (every * parts);
      Node begin = plus(before_offset(here), offset - inside);
      Node all = load(scalar_at(first.arg(0), at), begin, gate_at(gate, at),
                      static_cast<std::uint16_t>(lanes * every * parts));
      Node words = parts > 1 ? pack({&all, 1}) : all;
      Nodes own;
      for (std::int64_t i = 0; i < lanes; ++i) own.push_back(lane(words, i * every + inside / parts));
      return vec(own);
    });
  }
  Copies store_copies(Node n) {
    Node index = n.arg(1), value = n.arg(2), gate = n.arg_count() > 3 ? n.arg(3) : Node();
    Mask mask = dependence(n.arg(0)) | dependence(index) | dependence(value) | (gate ? dependence(gate) : 0);
    std::uint16_t lanes = std::max(lanes_of(index), lanes_of(value));
    bool contiguous = value.dtype().lanes > 1 || (of(index).lanes == 1 && lane_step(index) == 1);
    if (int beside = contiguous ? -1 : woven_axis(n, gate); beside >= 0) {
      Copies out =
          fill(mask, lanes, [&](const Coordinate& at) { return woven_store(n, gate, lanes, beside, at); });
      out.closed = bit(beside);  // what one copy stores is in the vectors of all
      return out;
    }
    return fill(mask, lanes, [&](const Coordinate& at) {
      Node where = lanes > 1 && !contiguous ? vector_at(index, at, lanes) : scalar_at(index, at);
      Node what = lanes > 1 ? vector_at(value, at, lanes) : scalar_at(value, at);
      return store(scalar_at(n.arg(0), at), where, what, gate_at(gate, at));
    });
  }
  // The axis whose copies are the elements between the lanes of a store, all of them: together they are whole
  // vectors. Else -1.
  int woven_axis(Node n, Node gate) const {
    const Copies& index = of(n.arg(1));
    const std::int64_t every = lane_step(n.arg(1));
    if (index.lanes > 1 || every < 2 || every > kMostElementsApart || n.arg(2).dtype().is_bool()) return -1;
    if (gate && lanes_of(gate) > 1) return -1;
    const Mask fixed = dependence(n.arg(0)) | (gate ? dependence(gate) : 0);
    for (const Stride& s : index.grows) {
      const ExpandedRange& axis = axes_[static_cast<std::size_t>(s.axis)];
      if (s.step == 1 && axis.lanes == 1 && axis.copies == every && (fixed & bit(s.axis)) == 0) return s.axis;
    }
    return -1;
  }
  // One of those vectors: the elements of all copies in turn.
  Node woven_store(Node n, Node gate, std::uint16_t lanes, int beside, const Coordinate& at) const {
    const auto axis = static_cast<std::size_t>(beside);
    const std::int64_t copies = axes_[axis].copies, first = at[axis] * lanes;
    Coordinate copy = at;
    Nodes values, woven;
    for (copy[axis] = 0; copy[axis] < copies; ++copy[axis])
      values.push_back(vector_at(n.arg(2), copy, lanes));
    for (std::int64_t i = first; i < first + lanes; ++i)
      woven.push_back(lane(values[static_cast<std::size_t>(i % copies)], i / copies));
    copy[axis] = 0;
    return store(scalar_at(n.arg(0), at), plus(scalar_at(n.arg(1), copy), first), vec(woven),
                 gate_at(gate, at));
  }
  Node gate_at(Node gate, const Coordinate& at) const {
    if (!gate) return gate;
    Node value = scalar_at(gate, at);
    return value.lo() == 1 ? Node() : value;
  }

  // Memory, effects and order: an effect that has run over an axis is all its copies.
  Copies effects(Node n) {
    Mask mask = 0, closed = 0;
    if (n.is(Op::End)) {
      const Copies& effect = of(n.arg(0));
      std::vector<Node> left;
      closed = effect.closed;
      for (Node r : closed_ranges(n)) {
        if (const int* axis = axis_of_.find(r))
          closed |= bit(*axis);
        else
          left.push_back(pool_[of(r).first]);
      }
      Copies out =
          fill(effect.mask, 1, [&](const Coordinate& at) { return end(scalar_at(n.arg(0), at), left); });
      out.closed = closed;
      return out;
    }
    for (Node a : n.args())
      if (!axis_of_.contains(a)) mask |= dependence(a);
    return fill(mask, 1, [&](const Coordinate& outer) {
      Nodes args;
      for (Node a : n.args()) {
        if (axis_of_.contains(a)) continue;
        Coordinate at = outer;
        each(of(a).mask & of(a).closed, at, [&] { args.push_back(scalar_at(a, at)); });
      }
      return n.is(Op::After) && args.size() == 1 ? args[0] : n.with_args(args);
    });
  }

  Copies reduce(Node n) {
    Node element = n.arg(0);
    Op op = reduce_op(n);
    Mask closed = 0, chain = 0, parts = 0;
    std::uint16_t lanes = lanes_of(element), across = 1;
    Nodes left;
    for (Node r : closed_ranges(n)) {
      const int* axis = axis_of_.find(r);
      if (axis == nullptr) {
        left.push_back(pool_[of(r).first]);
        continue;
      }
      const ExpandedRange& e = axes_[static_cast<std::size_t>(*axis)];
      closed |= bit(*axis);
      (e.lanes > 1 || partial_sums_ ? parts : chain) |= bit(*axis);
      across = std::max(across, e.lanes);
    }
    lanes = std::max(lanes, across);
    // In an invariant compile parts are combined by their place alone, which of the ranges ever has the
    // lanes: those of ranges after it are combined after the lanes.
    Mask after = 0;
    for (std::size_t a = axes_.size(); a-- > 0 && partial_sums_ && across > 1 && !is_lane_part(a, parts);)
      after |= parts & bit(static_cast<int>(a));
    return fill(dependence(element) & ~closed, across > 1 ? 1 : lanes, [&](const Coordinate& outer) {
      Nodes sums;
      Coordinate last = outer;
      each(after, last, [&] {
        Nodes totals;
        Coordinate at = last;
        each(parts & ~after, at, [&] {  // copies of the lanes are independent accumulators
          Nodes elements;
          Coordinate inner = at;
          each(chain, inner, [&] {
            Node e = lanes > 1 ? vector_at(element, inner, lanes) : scalar_at(element, inner);
            if (op != Op::Add || !adds_nothing(e)) elements.push_back(e);
          });
          if (planted(Fault::ExpandReduce) && elements.size() > 1) elements.pop_back();
          totals.push_back(elements.empty() ? splat(zero_of(element.dtype().element()),
                                                    std::max(lanes, element.dtype().lanes))
                                            : accumulate(op, elements, left));
        });
        const Node total = combine(op, totals);
        sums.push_back(across > 1 ? hreduce(op, total) : total);
      });
      return combine(op, sums);
    });
  }
  bool is_lane_part(std::size_t axis, Mask parts) const {
    return (parts >> axis & 1) != 0 && axes_[axis].lanes > 1;
  }
  // In an invariant compile as HReduce does, the upper half onto the lower half again and again: then it is
  // the same whether the parts of a reduce are lanes or copies. Else one after the other.
  Node combine(Op op, std::span<const Node> parts) const {
    Nodes left(parts.begin(), parts.end());
    while (partial_sums_ && left.size() > 1 && left.size() % 2 == 0) {
      const std::size_t half = left.size() / 2;
      for (std::size_t i = 0; i < half; ++i) left[i] = apply(op, left[i], left[i + half]);
      left.resize(half);
    }
    Node total = left[0];
    for (std::size_t i = 1; i < left.size(); ++i) total = apply(op, total, left[i]);
    return total;
  }

  // Whether the element of a sum is 0 because what it is made of is read nowhere: a step in the border of a
  // convolution (skip_steps.h).
  static bool adds_nothing(Node e) {
    switch (e.op()) {
      case Op::Load: return e.arg_count() > 2 && e.arg(2).hi() == 0;
      case Op::Mul: return adds_nothing(e.arg(0)) || adds_nothing(e.arg(1));
      case Op::Splat:
      case Op::Cast:
      case Op::Neg: return adds_nothing(e.arg(0));
      default: return false;
    }
  }

  // Elements taken one after the other for every value of the ranges. As a Fold, because (a + e0) + e1 is not
  // a + (e0 + e1).
  Node accumulate(Op op, std::span<const Node> elements, std::span<const Node> ranges) {
    if (elements.size() == 1) return reduce_ranges(op, elements[0], ranges);
    if (ranges.empty() && !target_.vectors && (op == Op::Max || op == Op::Min)) return in_pairs(op, elements);
    DType dtype = elements[0].dtype();
    Node value;
    AttrData name{"", {ids_.fold, 0, 0}};
    if (!ranges.empty()) value = intern(Op::Carry, dtype, {}, Attr::of(name));
    for (Node e : elements) value = value ? apply(op, value, e) : e;
    if (ranges.empty()) return value;
    Nodes args;
    args.push_back(splat(element_const(dtype.element(), unit_of(op, dtype.element())), dtype.lanes));
    args.push_back(value);
    args.append(ranges.begin(), ranges.end());
    AttrData d{"", {ids_.fold++, 1, 0}};
    Node folded = intern(Op::Fold, dtypes::Void, args, Attr::of(d));
    return intern(Op::Get, dtype, {folded}, Attr::of(std::int64_t{0}));
  }

  // The largest or smallest is the same in any order: pairs of pairs do not wait for each other.
  static Node in_pairs(Op op, std::span<const Node> elements) {
    Nodes left(elements.begin(), elements.end());
    while (left.size() > 1) {
      Nodes next;
      for (std::size_t i = 0; i + 1 < left.size(); i += 2) next.push_back(apply(op, left[i], left[i + 1]));
      if (left.size() % 2 != 0) next.push_back(left.back());
      left = std::move(next);
    }
    return left[0];
  }

  // ---- tuple reduces: one Fold stays one, with a component for every copy of a component

  struct FoldPlan {
    std::int64_t id;
    std::vector<Mask> masks;  // axes of each component, with those it has through other components
    std::vector<std::uint16_t> lanes;
    std::vector<std::int64_t> first;  // number of its first copy
    std::int64_t total = 0;
  };
  void plan_components(Node n) {
    auto count_of = static_cast<std::size_t>(n.ints()[1]);
    FoldPlan plan;
    plan.id = n.ints()[0];
    plan.masks.assign(count_of, 0);
    std::vector<std::vector<std::size_t>> uses(count_of);
    for (std::size_t i = 0; i < count_of; ++i) {
      for (Node part : {n.arg(i), n.arg(count_of + i)})
        for (Node r : ranges_of(part))
          if (const int* axis = axis_of_.find(r)) plan.masks[i] |= bit(*axis);
      for (Node c : toposort(n.arg(count_of + i)))
        if (c.is(Op::Carry) && c.ints()[0] == plan.id)
          uses[i].push_back(static_cast<std::size_t>(c.ints()[1]));
    }
    for (std::size_t round = 0; round < count_of; ++round)
      for (std::size_t i = 0; i < count_of; ++i)
        for (std::size_t j : uses[i]) plan.masks[i] |= plan.masks[j];
    for (std::size_t i = 0; i < count_of; ++i) {
      std::uint16_t lanes = 1;
      for (std::size_t a = 0; a < axes_.size(); ++a)
        if (plan.masks[i] >> a & 1) lanes = std::max(lanes, axes_[a].lanes);
      plan.lanes.push_back(lanes);
      plan.masks[i] = without_single(plan.masks[i]);
      plan.first.push_back(plan.total);
      plan.total += count(plan.masks[i]);
    }
    folds_.push_back(std::move(plan));
  }
  const FoldPlan* plan_of(std::int64_t id) const {
    for (const FoldPlan& p : folds_)
      if (p.id == id) return &p;
    return nullptr;
  }
  Copies carry(Node n) {
    const FoldPlan* plan = plan_of(n.ints()[0]);
    if (plan == nullptr || n.ints()[2] != 0) return leaf(n);
    auto i = static_cast<std::size_t>(n.ints()[1]);
    std::int64_t number = plan->first[i];
    return fill(plan->masks[i], plan->lanes[i], [&](const Coordinate&) {
      AttrData d{"", {plan->id, number++, 0}};
      return intern(Op::Carry, n.dtype().vec(plan->lanes[i]), {}, Attr::of(d));
    });
  }
  Copies fold(Node n) {
    const FoldPlan& plan = *plan_of(n.ints()[0]);
    auto count_of = static_cast<std::size_t>(n.ints()[1]);
    Nodes args;
    for (std::size_t part = 0; part < 2; ++part)
      for (std::size_t i = 0; i < count_of; ++i) {
        Coordinate at{};
        Node value = n.arg(part * count_of + i);
        each(plan.masks[i], at, [&] {
          args.push_back(plan.lanes[i] > 1 ? vector_at(value, at, plan.lanes[i]) : scalar_at(value, at));
        });
      }
    for (Node r : closed_ranges(n)) args.push_back(pool_[of(r).first]);
    AttrData d{"", {plan.id, plan.total, 0}};
    return leaf(intern(Op::Fold, dtypes::Void, args, Attr::of(d)));
  }
  Copies get(Node n) {
    Node source = n.arg(0);
    if (!source.is(Op::Fold)) return elementwise(n, 1);
    const FoldPlan& plan = *plan_of(source.ints()[0]);
    auto i = static_cast<std::size_t>(n.int_attr());
    std::int64_t number = plan.first[i];
    return fill(plan.masks[i], plan.lanes[i], [&](const Coordinate&) {
      return intern(Op::Get, n.dtype().vec(plan.lanes[i]), {pool_[of(source).first]}, Attr::of(number++));
    });
  }

  Node kernel_;
  std::vector<ExpandedRange> axes_;
  const Target& target_;
  bool partial_sums_;  // what is unrolled of a reduce is summed apart, with lanes and without
  NodeMap<int> axis_of_;
  FreshIds ids_;
  NodeMap<Copies> done_;
  std::vector<Node> pool_;
  std::vector<FoldPlan> folds_;
};

}  // namespace

Node expand(Node kernel, Lowering& lowering) {
  std::vector<ExpandedRange> axes = choose_lanes(kernel, lowering.target);
  // The ranges that are left are expanded in copies and vectors of the ones before, as in any other value.
  for (std::size_t first = 0; first < axes.size(); first += kAxesAtOnce) {
    auto begin = axes.begin() + static_cast<std::ptrdiff_t>(first);
    auto end = axes.begin() + static_cast<std::ptrdiff_t>(std::min(first + kAxesAtOnce, axes.size()));
    kernel = Expander(kernel, {begin, end}, lowering).run();
  }
  return kernel;
}

}  // namespace lathe
