#include "codegen/options/stage.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "base/planted.h"
#include "base/small_vector.h"
#include "codegen/kernel/panel_layout.h"
#include "codegen/kernel/substitute.h"
#include "codegen/options/shared_panel.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/shared_memory.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "target/cache_line.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

// A panel is indexed by the ranges below its loop; threads of a group fill it together, each its own part.
class Stager {
 public:
  Stager(Node kernel, std::span<const RangePlace> places, const Target& target)
      : target_(target), places_(places), ids_(fresh_ids(kernel)) {
    for (Node r : all_ranges(kernel)) {
      if (in_group(r)) group_.push_back(r);
      if (range_kind(r) == RangeKind::Reduce) first_reduce_ = std::min(first_reduce_, range_id(r));
    }
  }

  // Threads of a group meet when a panel is full: once for all that are filled at one loop.
  bool fills_together() const { return !group_.empty(); }

  struct Panel {
    Node value;                        // what it holds
    Node memory, copy;                 // and the loops that fill it
    Node index;                        // where a reader finds its element
    std::int64_t parts = 0, part = 0;  // of a word whose numbers are elements, and how far apart they are
    std::optional<PanelContent> content;
  };
  Node read(const Panel& panel, Node filled) const {
    Node memory = after(panel.memory, {&filled, 1}), first = load(memory, panel.index);
    if (panel.parts == 0) return first;
    Nodes parts{first};
    for (std::int64_t i = 1; i < panel.parts; ++i)
      parts.push_back(load(memory, panel.index + index_const(i * panel.part)));
    return pack(parts);
  }

  // `others` are filled at the same place: one that holds what this one would is read for both.
  OrRefusal<Panel> panel(const Staging& staging, std::span<const Panel> others) {
    const auto& [value, position, wanted, slots, filling] = staging;
    const bool bulk = filling != Filling::Threads;
    Nodes above, below;
    for (Node r : ranges_of(value)) {
      const bool thread = range_kind(r) == RangeKind::Thread;
      bool launch = thread || range_kind(r) == RangeKind::Global;
      bool outside = (range_id(r) <= position && !in_group(r)) || thread;
      (outside || (launch && target_.groups) ? above : below).push_back(r);
    }
    for (Node r : below)
      for (Node other : below)
        if (depends_on(r.arg(0), other))
          return Refusal{"STAGE", "a panel over a loop whose length another loop of the panel decides"};
    if (!group_.empty() && needs_others(value))
      return Refusal{"STAGE", "the threads of a group reduce the value together, so none can copy its part"};
    if (group_.empty() && wanted == PanelOrder::Swizzled)
      return Refusal{"STAGE", "a swizzled panel is one that the threads of a group share"};
    const OrRefusal<PanelCopy> copied =
        group_.empty() ? private_copy(value, below, wanted)
                       : shared_copy(value, below, group_, wanted, places_, target_, ids_);
    if (!copied) return copied.refusal();
    const PanelCopy& made = *copied;
    for (const Panel& other : others)
      if (made.content && other.content && hold_the_same(*made.content, *other.content))
        return Panel{value, other.memory, Node(), made.read, made.parts, made.part, made.content};
    const bool swizzled = wanted == PanelOrder::Swizzled;
    const DType dtype = made.value.dtype();
    bytes_ += made.size * dtype.bytes() * slots;
    if (bulk)
      bytes_ += slots * kSwizzlePiece;  // for barriers, one that they arrive at and one that frees them
    if (bytes_ > target_.shared_bytes)
      return Refusal{"STAGE", fmt::format("panels of {} bytes exceed the {} bytes of target {}", bytes_,
                                          target_.shared_bytes, target_.name)};
    // Without groups a panel is private to its thread.
    Node panel = group_.empty() ? define(dtype, ids_.define++, made.size, Space::Register)
                                : define(dtype, ids_.define++, made.size, Space::Shared,
                                         {swizzled, slots, bulk && slots > 1});
    if (filling == Filling::Roles && slots > 1) panel = with_filling(panel, filling);
    Nodes order;
    for (Node r : above)
      if (range_kind(r) != RangeKind::Upcast) order.push_back(r);
    // Nobody may still read the panel of the step before when it is overwritten.
    Nodes loops;
    for (Node r : order)
      if (is_repeated(r)) loops.push_back(r);
    if (!group_.empty() && !loops.empty()) order.push_back(barrier(loops));
    Node memory = order.empty() ? panel : after(panel, order);
    return Panel{value,       panel,      end(store(memory, made.index, made.value, made.gate), made.loops),
                 made.read,   made.parts, made.part,
                 made.content};
  }

 private:
  // Each thread of a group copies other pieces of a panel, so it has to compute them alone.
  static bool needs_others(Node value) {
    for (Node n : toposort(value)) {
      if (!n.is(Op::Reduce) && !n.is(Op::Fold)) continue;
      for (Node r : closed_ranges(n))
        if (in_group(r)) return true;
    }
    return false;
  }

  OrRefusal<PanelCopy> private_copy(Node value, const Nodes& below, PanelOrder wanted) {
    std::vector<PanelAxis> axes = panel_axes(value, below, wanted);
    if (wanted == PanelOrder::Source) join_last_axes(value, axes, lanes_of(value));
    return copy_loops(value, axes, wanted);
  }

  std::int64_t lanes_of(Node value) const {
    if (!target_.vectors || target_.groups) return 1;
    return std::max(target_.vector_bytes / std::max(value.dtype().bytes(), 1), 1);
  }

  // A coordinate of the copy: all at once in one loop, or `at_once` of them in registers.
  struct Coordinate {
    Node outer, inner, value;
  };
  Coordinate coordinate(Node extent, std::int64_t at_once) {
    Coordinate c;
    if (at_once <= 1) {
      c.outer = c.value = range(extent, ids_.range++, RangeKind::Loop);
      return c;
    }
    std::int64_t steps = (extent.hi() + at_once - 1) / at_once;
    if (steps > 1) c.outer = range(index_const(steps), ids_.range++, RangeKind::Loop);
    c.inner = range(index_const(at_once), ids_.range++, RangeKind::Upcast);
    c.value = c.outer ? c.outer * index_const(at_once) + c.inner : c.inner;
    return c;
  }

  // The contiguous axis of the source is copied by vectors where the panel's
  // last axis is the same; else a few elements at a time, with the panel's last axis inside: so both sides
  // stay in a few lines of the cache.
  PanelCopy copy_loops(Node value, const std::vector<PanelAxis>& axes, PanelOrder order) {
    PanelCopy made;
    NodeMap<Node> map;  // the value's ranges in the copy
    Node bound;         // false where a vector runs past the end of an axis
    std::size_t along = axes.size();
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (axes[i].stride == 1) along = i;
    const std::int64_t lanes = lanes_of(value);
    std::vector<std::int64_t> pitch, at_once(axes.size(), 1);
    for (const PanelAxis& axis : axes) pitch.push_back(axis.extent);
    std::size_t last = axes.size() - 1;
    if (along < axes.size() && lanes > 1) {
      std::int64_t extent = axes[along].extent;
      bool constant = axes[along].ranges.size() > 1 || axes[along].ranges[0].arg(0).is_const();
      bool registers = axes[along].ranges.size() == 1 && in_registers(axes[along].ranges[0]);
      if (along == last && registers) {
        at_once[along] = extent;
      } else if (constant && along == last && packed_neighbours(value) > 1) {
        // Words of neighbours are read as they lie, so no vector may run past the end.
        while (at_once[along] < lanes && extent % (at_once[along] * 2) == 0) at_once[along] *= 2;
      } else if (constant && along == last && extent * 2 > lanes) {
        at_once[along] = lanes;
        pitch[along] = (extent + lanes - 1) / lanes * lanes;
      } else if (constant && along != last) {
        for (std::int64_t n = std::min<std::int64_t>(lanes, 16); n > 1 && at_once[along] == 1; n /= 2)
          if (extent % n == 0) at_once[along] = n;
      }
    }
    // Else a few of the panel's neighbours at a time.
    if (lanes > 1 && !axes.empty() && axes[last].ranges.size() == 1 && in_registers(axes[last].ranges[0]) &&
        (along == axes.size() || at_once[along] == 1))
      for (std::int64_t n = 4; n > 1 && at_once[last] == 1; n /= 2)
        if (axes[last].extent % n == 0) at_once[last] = n;
    std::vector<Coordinate> coordinates(axes.size());
    Nodes inside;
    for (std::size_t i : loop_order(axes, pitch, value.dtype().bytes())) {
      Node extent = axes[i].ranges.size() == 1 ? axes[i].ranges[0].arg(0) : index_const(axes[i].extent);
      Coordinate c = coordinate(extent, at_once[i]);
      if (c.outer) made.loops.push_back(c.outer);
      if (c.inner) inside.push_back(c.inner);
      if (pitch[i] > axes[i].extent) bound = less(c.value, index_const(axes[i].extent));
      coordinates[i] = c;
      for (std::size_t r = 0; r < axes[i].ranges.size(); ++r)
        map.try_emplace(axes[i].ranges[r], r == axes[i].unit ? plus(c.value, axes[i].low) : index_const(0));
    }
    made.loops.append(inside.begin(), inside.end());
    made.value = substitute_free(value, map);
    if (bound) made.value = gated(made.value, bound);
    made.index = made.read = index_const(0);
    for (std::size_t i = axes.size(); i-- > 0;) {
      Node here = index_const(-axes[i].low);
      for (std::size_t r = 0; r < axes[i].ranges.size(); ++r)
        here = here + axes[i].ranges[r] * index_const(axes[i].weights[r]);
      if (order == PanelOrder::Source && i < last) made.size = apart(made.size, value.dtype().bytes());
      made.index = coordinates[i].value * index_const(made.size) + made.index;
      if (planted(Fault::StagePanelIndex) && i < last)
        here = floor_mod(here + index_const(1), index_const(axes[i].extent));
      made.read = here * index_const(made.size) + made.read;
      made.size *= pitch[i];
    }
    return made;
  }
  // The axes in the order of their loops, outermost first. Small blocks of the panel are written in its
  // order, and one block follows another as they are in the source: lines that come from far away come in
  // their order, while it makes no difference where the next block of the panel is.
  std::vector<std::size_t> loop_order(const std::vector<PanelAxis>& axes,
                                      const std::vector<std::int64_t>& pitch, int bytes) const {
    constexpr std::int64_t kBlock = 2048;
    std::vector<std::size_t> order(axes.size());
    std::iota(order.begin(), order.end(), 0);
    if (target_.groups) return order;
    std::int64_t step = bytes;
    std::size_t blocks = axes.size();  // axes before it move by whole blocks
    for (; blocks > 0 && step < kBlock; --blocks) step *= pitch[blocks - 1];
    std::stable_sort(
        order.begin(), order.begin() + static_cast<std::ptrdiff_t>(blocks),
        [&](std::size_t a, std::size_t b) { return std::abs(axes[a].stride) > std::abs(axes[b].stride); });
    return order;
  }
  // Many rows of a panel in the order of its source are read at a time. Where they lie a multiple of half a
  // page apart they would share a few places of L1: a line more between them.
  std::int64_t apart(std::int64_t elements, int bytes) const {
    constexpr std::int64_t kHalfPage = 2048;
    const bool together = !target_.groups && elements * bytes % kHalfPage == 0;
    return together ? elements + kLineBytes / bytes : elements;
  }
  static Node gated(Node value, Node gate) {
    return under_gate(value, gate, [](Node) { return true; });
  }
  static Node plus(Node index, std::int64_t c) { return c == 0 ? index : index + index_const(c); }

  // A loop of one group; a global range is one only where it is inside a reduce, which a reduce spread
  // over the group does not allow (place_accumulators.h).
  bool is_repeated(Node r) const {
    RangeKind k = range_kind(r);
    return k == RangeKind::Loop || k == RangeKind::Reduce ||
           (k == RangeKind::Global && range_id(r) > first_reduce_);
  }

  const Target& target_;
  std::span<const RangePlace> places_;
  FreshIds ids_;
  Nodes group_;
  std::int64_t bytes_ = 0, first_reduce_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

OrRefusal<Node> stage_values(Node kernel, std::span<const Staging> stages, std::span<const RangePlace> places,
                             const Target& target) {
  if (stages.empty()) return kernel;
  Stager stager(kernel, places, target);
  for (std::size_t begin = 0, last = 0; begin < stages.size(); begin = last) {
    std::vector<Stager::Panel> panels;
    Nodes copies;
    for (last = begin; last < stages.size(); ++last) {
      const Staging& s = stages[last];
      if (last > begin && (!stager.fills_together() || s.position != stages[begin].position)) break;
      if (!s.value || s.value.is_const()) continue;  // folded away: nothing left to copy
      OrRefusal<Stager::Panel> panel = stager.panel(s, panels);
      if (!panel) return panel.refusal();
      panels.push_back(*panel);
      if (panels.back().copy) copies.push_back(panels.back().copy);
    }
    if (panels.empty()) continue;
    Node filled = stager.fills_together() ? barrier(copies) : copies[0];
    NodeMap<Node> staged;
    for (const Stager::Panel& panel : panels) staged.try_emplace(panel.value, stager.read(panel, filled));
    kernel = substitute(kernel, staged);
  }
  // The copy is divided by the ranges of the group, of which some are open only inside a reduce or a store.
  if (stager.fills_together() && !open_ranges(kernel).empty())
    return Refusal{"STAGE", "the value is also read where the threads of the group are no ranges"};
  return kernel;
}

}  // namespace lathe
