#include "codegen/options/group_reduce.h"

#include <algorithm>
#include <vector>

#include "base/planted.h"
#include "base/small_vector.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/group_ops.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

// Parts of a reduce that are first combined by some of the threads, so that fewer are left for every thread.
constexpr std::int64_t kWorthTwoSteps = 32;

bool is_kind(Node range, std::initializer_list<RangeKind> kinds) {
  return std::find(kinds.begin(), kinds.end(), range_kind(range)) != kinds.end();
}

class GroupReducer {
 public:
  Node run(Node kernel) {
    for (Node r : all_ranges(kernel)) {
      if (is_kind(r, {RangeKind::Local, RangeKind::Group})) threads_.push_back(r);
      if (is_kind(r, {RangeKind::Group})) groups_.push_back(r);
    }
    if (groups_.empty()) return threads_.empty() ? kernel : close_threads(kernel);
    ids_ = fresh_ids(kernel);
    std::vector<Node> order = toposort(kernel);
    for (Node n : order)
      if (n.is(Op::Store)) written_.try_emplace(base_memory(n.arg(0)));
    for (Node n : order) done_.try_emplace(n, lower(n));
    return *done_.find(kernel);
  }

 private:
  Node lower(Node n) {
    if (n.arg_count() == 0) return n;
    Nodes args;
    for (Node a : n.args()) args.push_back(*done_.find(a));
    if (n.is(Op::Reduce)) {
      for (Node r : closed_ranges(n))
        if (is_kind(r, {RangeKind::Group})) return spread(n, args[0]);
    }
    if (n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Param)) {
      Node own = n.arg_count() > 3 ? args[3] : Node(), gate = by_first(n, own);
      return store(args[0], args[1], gate == own ? args[2] : read_once(args[2], gate), gate);
    }
    // What the kernel has stored there itself, which only the first thread did: an accumulator in the output.
    if (n.is(Op::Load) && n.arg(0).is(Op::After) && base_memory(n.arg(0)).is(Op::Param))
      return load(args[0], args[1], by_first(n, n.arg_count() > 2 ? args[2] : Node()), n.dtype().lanes);
    if (n.is(Op::Sink)) {  // every effect now runs over the group
      return close_threads(sink(args));
    }
    return rebuild(n, args);
  }

  // What the kernel also writes is read by the thread that writes it: the others would read it at any time.
  // What goes into a shared reduce was read before its barrier.
  Node read_once(Node value, Node gate) const {
    auto in_this_thread = [](Node n) { return !n.is(Op::Load) || !base_memory(n.arg(0)).is(Op::Define); };
    NodeMap<Node> to;
    for (Node n : toposort(std::span<const Node>(&value, 1), in_this_thread))
      if (n.is(Op::Load) && n.arg(0).is(Op::Param) && written_.contains(n.arg(0)))
        to[n] = load(n.arg(0), n.arg(1), n.arg_count() > 2 ? logical_and(n.arg(2), gate) : gate);
      else if (!in_this_thread(n))
        to[n] = n;
    return substitute(value, to);
  }

  // Of threads that an access does not run over, the first does it.
  Node by_first(Node access, Node gate) const {
    for (Node t : groups_) {
      if (depends_on(access.arg(1), t)) continue;
      Node first = equal(t, index_const(0));
      gate = gate ? logical_and(gate, first) : first;
    }
    return gate;
  }

  Node close_threads(Node kernel) {
    Nodes effects(kernel.args().begin(), kernel.args().end());
    for (Node& effect : effects) effect = over_group(effect);
    return sink(effects);
  }

  // Closes the ranges over threads that a shared reduce or panel brought into an effect. Of threads that the
  // effect did not run over before, the first stores.
  Node over_group(Node effect) {
    Nodes closed(closed_ranges(effect).begin(), closed_ranges(effect).end());
    Node inner = effect.is(Op::End) ? effect.arg(0) : effect;
    Node gate = inner.is(Op::Store) && inner.arg_count() > 3 ? inner.arg(3) : Node();
    for (Node t : threads_) {
      if (std::find(closed.begin(), closed.end(), t) != closed.end() || !depends_on(inner, t)) continue;
      closed.push_back(t);
      if (is_kind(t, {RangeKind::Group}) || !inner.is(Op::Store))
        continue;  // gated where the store was lowered
      Node first = equal(t, index_const(0));
      gate = gate ? logical_and(gate, first) : first;
    }
    if (inner.is(Op::Store)) inner = store(inner.arg(0), inner.arg(1), inner.arg(2), gate);
    return end(inner, closed);
  }

  // Whether threads that are neighbours in a warp, four at most, reduce together: the last of a group of
  // whole warps.
  bool are_neighbours(const Nodes& parts) const {
    constexpr std::int64_t kMostExchanged = 4, kWarp = 32;
    std::int64_t all = 1;
    for (Node t : threads_) all *= t.arg(0).is_const() ? t.arg(0).const_int() : 1;
    if (parts.size() != 1 || threads_.back() != parts[0] || all % kWarp != 0) return false;
    const std::int64_t count = parts[0].arg(0).is_const() ? parts[0].arg(0).const_int() : 0;
    return count > 1 && count <= kMostExchanged && (count & (count - 1)) == 0;
  }
  // Every thread takes the part of another in, twice as far away each time: all have the same total.
  static Node exchanged(Op op, Node part, std::int64_t count) {
    for (std::int64_t bit = 1; bit < count; bit *= 2) part = apply(op, part, exchange(part, bit));
    return part;
  }

  Node spread(Node reduce, Node element) {
    Op op = reduce_op(reduce);
    Nodes parts, rest,
        copies;  // ranges over threads; over steps of one thread; output positions held by one thread
    for (Node r : closed_ranges(reduce))
      (is_kind(r, {RangeKind::Group}) ? parts : rest).push_back(*done_.find(r));
    bool repeated = false;  // in a loop, so that the shared memory is used again
    for (Node r : ranges_of(reduce)) {
      if (is_kind(r, {RangeKind::Upcast, RangeKind::Unroll}))
        copies.push_back(*done_.find(r));
      else
        repeated |= is_kind(r, {RangeKind::Loop, RangeKind::Reduce});
    }

    if (are_neighbours(parts))
      return exchanged(op, reduce_ranges(op, element, rest), parts[0].arg(0).const_int());
    // S[other threads][copies][parts]: threads that do not share this reduce keep their own.
    Nodes order;
    for (Node t : threads_)
      if (std::find(parts.begin(), parts.end(), t) == parts.end()) order.push_back(t);
    order.append(copies.begin(), copies.end());
    order.append(parts.begin(), parts.end());
    std::int64_t size = 1;
    Node place = row_major(order, size);
    Node shared = define(reduce.dtype(), ids_.define++, size, Space::Shared);
    Node write = each_copy(store(shared, place, reduce_ranges(op, element, rest)), copies);
    Node written = planted(Fault::GroupBarrier) ? write : barrier({&write, 1});

    std::int64_t count = 1;
    Node part = row_major(parts, count);
    if (count >= kWorthTwoSteps && (count & (count - 1)) == 0) {
      std::int64_t left = count;
      while (left * left > count) left /= 2;
      written = combine_some(op, shared, place, part, count, left, written, copies);
      count = left;
    }
    NodeMap<Node> first;
    for (Node p : parts) first.try_emplace(p, index_const(0));
    const RangeKind kind = count <= kWorthTwoSteps ? RangeKind::Unroll : RangeKind::Reduce;
    Node each = range(index_const(count), ids_.range++, kind);
    Node total = reduce_ranges(op, load(after(shared, {&written, 1}), substitute_free(place, first) + each),
                               {&each, 1});
    if (!repeated) return total;

    std::int64_t held = 1;
    Node slot = row_major(copies, held);
    Node own = define(reduce.dtype(), ids_.define++, held, Space::Register);
    Node keep = each_copy(store(own, slot, total), copies);
    Node read = barrier({&keep, 1});
    return load(after(own, {&read, 1}), slot);
  }

  // The first `left` parts take in the others, each those `left` further on: one thread for each of them.
  Node combine_some(Op op, Node shared, Node place, Node part, std::int64_t count, std::int64_t left,
                    Node written, std::span<const Node> copies) {
    Node memory = after(shared, {&written, 1}), gate = less(part, index_const(left));
    Node each = range(index_const(count / left), ids_.range++, RangeKind::Unroll);
    Node sum = reduce_ranges(op, load(memory, place + each * index_const(left), gate), {&each, 1});
    Node step = each_copy(store(memory, place, sum, gate), copies);
    return barrier({&step, 1});
  }

  // The effect for every copy, under ranges of its own, so that one barrier serves all of them.
  Node each_copy(Node effect, std::span<const Node> copies) {
    NodeMap<Node> map;
    Nodes own;
    for (Node r : copies) {
      own.push_back(range(r.arg(0), ids_.range++, RangeKind::Upcast));
      map.try_emplace(r, own.back());
    }
    return copies.empty() ? effect : end(substitute_free(effect, map), own);
  }
  static Node row_major(std::span<const Node> ranges, std::int64_t& size) {
    Node index = index_const(0);
    for (Node r : ranges) {
      std::int64_t extent = std::max<std::int64_t>(r.arg(0).hi(), 1);
      index = index * index_const(extent) + r;
      size *= extent;
    }
    return index;
  }

  FreshIds ids_;
  Nodes threads_, groups_;
  NodeMap<char> written_;
  NodeMap<Node> done_;
};

}  // namespace

Node group_reduce(Node kernel) { return GroupReducer().run(kernel); }

}  // namespace lathe
