#include "codegen/lower/map_parallel.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/planted.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

constexpr std::int64_t kNoLimit[3] = {std::numeric_limits<std::int64_t>::max(), 1, 1};

enum class Place : std::uint8_t { Loop, Group, Local, Thread };

Place place_of(Node range, const Target& target) {
  switch (range_kind(range)) {
    case RangeKind::Global: return target.groups ? Place::Group : Place::Loop;
    case RangeKind::Local:
    case RangeKind::Group: return Place::Local;
    case RangeKind::Thread: return Place::Thread;
    default: return Place::Loop;
  }
}

// One launch dimension: the ranges it stands for, outermost first.
struct Dimension {
  std::vector<Node> ranges;
  std::int64_t size() const {
    std::int64_t n = 1;
    for (Node r : ranges) n *= std::max<std::int64_t>(r.arg(0).hi(), 1);
    return n;
  }
};

// The innermost range gets dimension 0, the next 1, all others 2; a dimension that is too large hands its
// ranges to the one below, whose limit is higher, and shares its index.
std::array<Dimension, 3> arrange(const std::vector<Node>& ranges, const std::int64_t limit[3]) {
  std::array<Dimension, 3> dims;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    std::size_t from_inside = ranges.size() - 1 - i;
    dims[std::min<std::size_t>(from_inside, 2)].ranges.push_back(ranges[i]);
  }
  for (std::size_t d = 3; d-- > 1;)
    if (dims[d].size() > limit[d]) {
      dims[d - 1].ranges.insert(dims[d - 1].ranges.begin(), dims[d].ranges.begin(), dims[d].ranges.end());
      dims[d].ranges.clear();
    }
  return dims;
}

class Mapper {
 public:
  Mapper(Node kernel, Lowering& lowering) : kernel_(kernel), lowering_(lowering) {}

  Node run() {
    const Target& target = lowering_.target;
    std::vector<Node> by_place[4];
    for (Node r : all_ranges(kernel_)) by_place[static_cast<int>(place_of(r, target))].push_back(r);
    for (int p = 1; p < 4; ++p) parallel_.insert(parallel_.end(), by_place[p].begin(), by_place[p].end());
    if (parallel_.empty()) return kernel_;
    launch(by_place[static_cast<int>(Place::Group)], "g", target.max_groups, lowering_.launch.groups.data());
    launch(by_place[static_cast<int>(Place::Local)], "l", target.max_locals, lowering_.launch.locals.data());
    launch(by_place[static_cast<int>(Place::Thread)], "t", kNoLimit, &lowering_.launch.threads);
    return rewrite();
  }

 private:
  void launch(const std::vector<Node>& ranges, std::string_view letter, const std::int64_t limit[3],
              Node* sizes) {
    if (ranges.empty()) return;
    bool single = letter == "t";
    std::array<Dimension, 3> dims;
    if (single)
      dims[0].ranges = ranges;
    else
      dims = arrange(ranges, limit);
    for (std::size_t d = 0; d < 3; ++d) {
      if (dims[d].ranges.empty()) continue;
      Node extent = index_const(1);
      for (Node r : dims[d].ranges) extent = extent * r.arg(0);
      check_internal(ranges_of(extent).empty(), "map_parallel", "the size of a launch depends on a range");
      sizes[d] = extent;
      std::string name = single ? std::string(letter) : fmt::format("{}{}", letter, d);
      Node index = special(name, extent.is_const() ? extent.const_int() : 0);
      // Mixed radix digits, the innermost range being the lowest.
      const std::vector<Node>& in = dims[d].ranges;
      Node below = index_const(1);
      for (std::size_t i = in.size(); i-- > 0;) {
        Node digit = floor_div(index, below);
        if (planted(Fault::ParallelDigit) && in.size() > 1) digit = floor_div(index, in[i].arg(0));
        if (i > 0) digit = floor_mod(digit, in[i].arg(0));
        map_.try_emplace(in[i], digit);
        below = below * in[i].arg(0);
      }
    }
  }

  // Closers lose their parallel ranges. A store to a param that does not run over some parallel range would
  // be done by every thread of it: only the first does it.
  Node rewrite() {
    for (Node n : toposort(kernel_)) {
      if (const Node* to = map_.find(n)) {
        done_.try_emplace(n, *to);
        continue;
      }
      if (n.arg_count() == 0) {
        done_.try_emplace(n, n);
        continue;
      }
      SmallVector<Node, 16> args;
      for (Node a : n.args()) args.push_back(*done_.find(a));
      if (n.is(Op::End)) {
        std::vector<Node> left;
        for (Node r : closed_ranges(n))
          if (!map_.contains(r)) left.push_back(*done_.find(r));
        done_.try_emplace(n, end(args[0], left));
      } else if (n.is(Op::Barrier)) {  // nor does a launch index begin again
        SmallVector<Node, 16> waits;
        for (std::size_t i = 0; i < n.arg_count(); ++i)
          if (!map_.contains(n.arg(i))) waits.push_back(args[i]);
        done_.try_emplace(n, waits.empty() ? index_const(0) : barrier(waits));
      } else if (n.is(Op::After)) {  // being inside a launch index is no order
        SmallVector<Node, 16> effects;
        for (std::size_t i = 1; i < n.arg_count(); ++i)
          if (!map_.contains(n.arg(i))) effects.push_back(args[i]);
        done_.try_emplace(n, effects.empty() ? args[0] : after(args[0], effects));
      } else if (n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Param)) {
        Node gate = args.size() > 3 ? args[3] : Node();
        for (Node r : parallel_) {
          if (depends_on(n, r)) continue;
          Node first = equal(*map_.find(r), index_const(0));
          if (gate && gate.dtype().lanes > 1) first = splat(first, gate.dtype().lanes);
          gate = gate ? logical_and(gate, first) : first;
        }
        done_.try_emplace(n, store(args[0], args[1], args[2], gate));
      } else {
        done_.try_emplace(n, rebuild(n, args));
      }
    }
    return *done_.find(kernel_);
  }

  Node kernel_;
  Lowering& lowering_;
  std::vector<Node> parallel_;
  NodeMap<Node> map_, done_;
};

}  // namespace

Node map_parallel(Node kernel, Lowering& lowering) { return Mapper(kernel, lowering).run(); }

}  // namespace lathe
