#include "codegen/options/place_folds.h"

#include <algorithm>
#include <vector>

#include "base/small_vector.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

Node carry_of(Node fold, std::size_t i) {
  AttrData d{"", {fold.ints()[0], static_cast<std::int64_t>(i), 0}};
  return intern(Op::Carry, fold.arg(i).dtype(), {}, Attr::of(d));
}

// What a component depends on outside the fold's own ranges, and which components its step reads.
struct Component {
  Nodes ranges;
  std::vector<char> reads;
  Nodes further;  // ranges that not all components have, or that no panel is in
  Node memory;
};

// The ranges that panels filled in each step of the fold stand in: shared by all that reads them.
std::vector<Nodes> panels_in(Node fold) {
  std::vector<Nodes> all;
  for (Node n : toposort(fold)) {
    if (!n.is(Op::After) || !n.arg(0).is(Op::Define)) continue;
    Nodes around;
    bool inside = false;
    for (Node order : n.args().subspan(1))
      if (order.dtype().is_index())
        for (Node r : ranges_of(order)) {
          around.push_back(r);
          inside |= contains(closed_ranges(fold), r);
        }
    if (inside) all.push_back(around);
  }
  return all;
}

std::vector<Component> components_of(Node fold) {
  auto n = static_cast<std::size_t>(fold.ints()[1]);
  std::vector<Component> all(n);
  for (std::size_t i = 0; i < n; ++i) {
    all[i].reads.assign(n, 0);
    all[i].reads[i] = 1;
    for (Node part : {fold.arg(i), fold.arg(n + i)})
      for (Node r : ranges_of(part))
        if (!contains(closed_ranges(fold), r) && !contains(all[i].ranges, r)) all[i].ranges.push_back(r);
    for (Node c : toposort(fold.arg(n + i)))
      if (c.is(Op::Carry) && c.ints()[0] == fold.ints()[0])
        all[i].reads[static_cast<std::size_t>(c.ints()[1])] = 1;
  }
  for (std::size_t round = 0; round < n; ++round)
    for (Component& c : all)
      for (std::size_t j = 0; j < n; ++j)
        if (c.reads[j])
          for (Node r : all[j].ranges)
            if (!contains(c.ranges, r)) c.ranges.push_back(r);
  // On a matrix unit threads share the panels' ranges out, and registers follow the fragments.
  const bool grouped = std::any_of(all.begin(), all.end(), [](const Component& c) {
    return std::any_of(c.ranges.begin(), c.ranges.end(), [](Node r) { return in_group(r); });
  });
  const std::vector<Nodes> panels = grouped ? std::vector<Nodes>() : panels_in(fold);
  auto shared = [&](Node r) {
    return std::all_of(all.begin(), all.end(), [&](const Component& c) { return contains(c.ranges, r); }) &&
           std::all_of(panels.begin(), panels.end(), [&](const Nodes& p) { return contains(p, r); });
  };
  // Every thread has its own memory, so it keeps what it computes itself and no more.
  for (Component& c : all)
    for (Node r : c.ranges)
      if (!in_group(r) && !shared(r)) c.further.push_back(r);
  for (Component& c : all)
    std::sort(c.further.begin(), c.further.end(), [](Node a, Node b) { return range_id(a) < range_id(b); });
  return all;
}

// Only what no other component reads may be an array: then its elements change one by one.
bool can_place(const std::vector<Component>& all) {
  bool any = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].further.empty()) continue;
    any = true;
    for (std::size_t j = 0; j < all.size(); ++j)
      if (i != j && all[j].reads[i]) return false;
    for (Node r : all[i].further)
      if (!r.arg(0).is_const()) return false;
  }
  return any;
}

class FoldPlacer {
 public:
  explicit FoldPlacer(Node kernel) : ids_(fresh_ids(kernel)) {
    for (Node r : all_ranges(kernel)) threads_ |= range_kind(r) == RangeKind::Group;
  }

  // The components once the fold is done, each at its own ranges.
  std::vector<Node> place(Node fold, std::vector<Component>& all) {
    auto n = all.size();
    Nodes common;
    for (Node r : all[0].ranges)
      if (!contains(all[0].further, r)) common.push_back(r);
    std::sort(common.begin(), common.end(), [](Node a, Node b) { return range_id(a) < range_id(b); });
    Nodes loops(closed_ranges(fold).begin(), closed_ranges(fold).end());

    NodeMap<Node> carries;
    Nodes old, inside(n);  // running values that one element holds; memory within the loop
    for (std::size_t i = 0; i < n; ++i) {
      Component& c = all[i];
      std::int64_t size = 1;
      for (Node r : c.further) size *= r.arg(0).const_int();
      c.memory = define(fold.arg(i).dtype(), ids_.define++, size, Space::Register);
      Nodes order, ranges;
      NodeMap<Node> map = clone(c.further, ranges);
      Node fresh = common.empty() ? c.memory : after(c.memory, common);
      Node init = copy_for_loop(fold.arg(i), map, ids_);
      order.push_back(end(store(fresh, row_major(ranges), init), ranges));
      order.append(loops.begin(), loops.end());
      order.append(common.begin(), common.end());
      inside[i] = after(c.memory, order);
      Node value = load(inside[i], row_major(c.further));
      carries.try_emplace(carry_of(fold, i), value);
      if (c.further.empty()) old.push_back(value);
    }
    Nodes steps;
    for (std::size_t i = 0; i < n; ++i) steps.push_back(fold.arg(n + i));
    Node now = substitute(sink(steps), carries);
    Nodes done;
    for (std::size_t i = 0; i < n; ++i) {
      const Component& c = all[i];
      Nodes ranges;
      NodeMap<Node> map = clone(c.further, ranges);
      // No running value changes before all of them have been read.
      Node memory = c.further.empty() && n > 1 ? after(inside[i], old) : inside[i];
      Node value = copy_for_loop(now.arg(i), map, ids_);
      done.push_back(end(end(store(memory, row_major(ranges), value), ranges), loops));
    }
    std::vector<Node> out;
    for (const Component& c : all) out.push_back(load(after(c.memory, done), row_major(c.further)));
    return out;
  }

 private:
  static Node row_major(std::span<const Node> ranges) {
    Node index = index_const(0);
    for (Node r : ranges) index = index * r.arg(0) + r;
    return index;
  }
  // The same ranges with ids of their own. Inside the fold nothing is spread over groups; where its rows are,
  // ranges in registers are parts of a fragment and stay what they are.
  NodeMap<Node> clone(std::span<const Node> ranges, Nodes& made) {
    NodeMap<Node> map;
    for (Node r : ranges) {
      if (threads_ && in_registers(r)) {
        made.push_back(r);
        continue;
      }
      RangeKind kind = range_kind(r) == RangeKind::Upcast ? RangeKind::Upcast : RangeKind::Loop;
      made.push_back(range(r.arg(0), ids_.range++, kind));
      map.try_emplace(r, made.back());
    }
    return map;
  }

  FreshIds ids_;
  bool threads_ = false;  // a row's loops are divided among threads
};

}  // namespace

Node place_folds(Node kernel) {
  std::vector<Node> order = toposort(kernel);
  if (std::none_of(order.begin(), order.end(), [](Node n) { return n.is(Op::Fold); })) return kernel;
  FoldPlacer placer(kernel);
  NodeMap<std::vector<Node>> results;
  NodeMap<Node> done;
  for (Node n : order) {
    Nodes args;
    for (Node a : n.args()) args.push_back(*done.find(a));
    Node now = n.arg_count() == 0 ? n : rebuild(n, args);
    if (n.is(Op::Fold)) {
      std::vector<Component> all = components_of(now);
      if (can_place(all)) results.try_emplace(n, placer.place(now, all));
    } else if (n.is(Op::Get)) {
      if (const std::vector<Node>* values = results.find(n.arg(0)))
        now = (*values)[static_cast<std::size_t>(n.int_attr())];
    }
    done.try_emplace(n, now);
  }
  return *done.find(kernel);
}

}  // namespace lathe
