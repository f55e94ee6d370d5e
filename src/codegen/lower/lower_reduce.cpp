#include "codegen/lower/lower_reduce.h"

#include <algorithm>
#include <vector>

#include "base/planted.h"
#include "base/small_vector.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/shape.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

// Reduces that may share a loop: same ranges, same scope, and none can need another's result, because all
// have equally many reduces below them.
struct LoopGroup {
  Node ranges, scope;  // Dims nodes: equal lists are equal handles
  int depth;
  Nodes opened;  // the ranges its loop opens
  bool renamed;
};

class Lowering {
 public:
  Node run(Node kernel) {
    ids_ = fresh_ids(kernel);
    std::vector<Node> order = toposort(kernel);
    bool any = false;
    for (Node n : order) any |= n.is(Op::Reduce) || n.is(Op::Fold);
    if (!any) return kernel;
    for (Node n : order) {
      int depth = 0;
      for (Node a : n.args()) depth = std::max(depth, *depth_.find(a));
      bool reduce = n.is(Op::Reduce) || n.is(Op::Fold);
      if (n.is(Op::Reduce))
        done_.try_emplace(n, reduce_loop(n, depth));
      else if (n.is(Op::Fold))
        fold_loop(n, depth);
      else if (n.is(Op::Get))
        done_.try_emplace(n, results_.find(n.arg(0))->at(static_cast<std::size_t>(n.int_attr())));
      else if (n.arg_count() == 0)
        done_.try_emplace(n, n);
      else
        done_.try_emplace(n, rebuild(n, mapped(n.args())));
      depth_.try_emplace(n, depth + (reduce ? 1 : 0));
    }
    return *done_.find(kernel);
  }

 private:
  Nodes mapped(std::span<const Node> args) const {
    Nodes out;
    for (Node a : args) {
      const Node* to = done_.find(a);
      out.push_back(to != nullptr ? *to : a);
    }
    return out;
  }

  LoopGroup& group_of(Node reduce, int depth) {
    Nodes ranges;
    for (Node r : closed_ranges(reduce)) ranges.push_back(*done_.find(r));
    std::sort(ranges.begin(), ranges.end(), [](Node a, Node b) { return range_id(a) < range_id(b); });
    Nodes scope_list;
    for (Node r : ranges_of(reduce)) scope_list.push_back(*done_.find(r));
    Node list = dims(std::span<const Node>(ranges)), scope = dims(std::span<const Node>(scope_list));
    for (LoopGroup& g : groups_)
      if (g.ranges == list && g.scope == scope && g.depth == depth) return g;
    LoopGroup group{list, scope, depth, ranges, false};
    for (Node r : ranges) group.renamed |= opened_.contains(r);
    if (group.renamed) rename(group.opened);
    for (Node r : group.opened) opened_.try_emplace(r);
    groups_.push_back(group);
    return groups_.back();
  }

  // Other ranges in the place of these. The extent of one may count with another of them, which goes first.
  void rename(Nodes& ranges) {
    NodeMap<Node> renamed;
    const auto visit = [&](const auto& self, Node r) -> void {
      if (renamed.contains(r)) return;
      for (Node outer : ranges_of(r.arg(0)))
        if (std::find(ranges.begin(), ranges.end(), outer) != ranges.end()) self(self, outer);
      renamed.try_emplace(r, range(substitute(r.arg(0), renamed), ids_.range++, range_kind(r)));
    };
    for (Node r : ranges) visit(visit, r);
    for (Node& r : ranges) r = *renamed.find(r);
  }

  Node within(const LoopGroup& group, Node value) {
    if (!group.renamed) return value;
    NodeMap<Node> map;
    for (std::size_t i = 0; i < group.opened.size(); ++i)
      map.try_emplace(group.ranges.arg(i), group.opened[i]);
    return copy_for_loop(value, map, ids_);
  }

  // The accumulator's memory inside the loop, once initialised.
  struct Accumulator {
    Node memory, inside;
  };
  Accumulator accumulator(const LoopGroup& group, Node init) {
    DType dtype = init.dtype();
    Node memory = define(dtype, ids_.define++, 1, Space::Register);
    std::span<const Node> scope = group.scope ? group.scope.args() : std::span<const Node>();
    Node fresh = scope.empty() || planted(Fault::ReduceScope) ? memory : after(memory, scope);
    Nodes order;
    if (planted(Fault::ReduceUnit)) init = init + splat(number(dtype.element(), 1), dtype.lanes);
    if (!planted(Fault::ReduceUninitialised)) order.push_back(store(fresh, index_const(0), init));
    order.append(group.opened.begin(), group.opened.end());
    return {memory, after(memory, order)};
  }
  static Node read(Node memory) { return load(memory, index_const(0), Node(), memory.dtype().lanes); }
  static Node result(const LoopGroup& group, const Accumulator& acc, Node update) {
    Node loop = end(update, group.opened);
    return read(after(acc.memory, {&loop, 1}));
  }

  Node reduce_loop(Node reduce, int depth) {
    LoopGroup group = group_of(reduce, depth);
    Node element = within(group, *done_.find(reduce.arg(0)));
    Op op = reduce_op(reduce);
    DType dtype = element.dtype();
    Node unit = splat(element_const(dtype.element(), unit_of(op, dtype.element())), dtype.lanes);
    Accumulator acc = accumulator(group, unit);
    Node update = store(acc.inside, index_const(0), apply(op, read(acc.inside), element));
    return result(group, acc, update);
  }

  void fold_loop(Node fold, int depth) {
    LoopGroup group = group_of(fold, depth);
    auto n = static_cast<std::size_t>(fold.ints()[1]);
    std::vector<Accumulator> accs;
    NodeMap<Node> carries;
    Nodes old;
    for (std::size_t i = 0; i < n; ++i) {
      accs.push_back(accumulator(group, *done_.find(fold.arg(i))));
      AttrData d{"", {fold.ints()[0], static_cast<std::int64_t>(i), 0}};
      Node carry = intern(Op::Carry, fold.arg(i).dtype(), {}, Attr::of(d));
      carries.try_emplace(carry, read(accs[i].inside));
      old.push_back(read(accs[i].inside));
    }
    Nodes steps;
    for (std::size_t i = 0; i < n; ++i) steps.push_back(*done_.find(fold.arg(n + i)));
    Node all = substitute(within(group, sink(steps)),
                          carries);  // in one walk: steps share most of what they compute
    Nodes loops;  // a component may be read only after the updates of all: they feed each other
    for (std::size_t i = 0; i < n; ++i) {
      // All components change at once: no store before every old value has been read.
      Node memory = n == 1 ? accs[i].inside : after(accs[i].inside, old);
      loops.push_back(end(store(memory, index_const(0), all.arg(i)), group.opened));
    }
    std::vector<Node> results;
    for (std::size_t i = 0; i < n; ++i) results.push_back(read(after(accs[i].memory, loops)));
    results_.try_emplace(fold, std::move(results));
    done_.try_emplace(fold, fold);
  }

  FreshIds ids_;
  NodeMap<Node> done_;
  NodeMap<int> depth_;
  NodeMap<std::vector<Node>> results_;
  NodeMap<char> opened_;
  std::vector<LoopGroup> groups_;
};

}  // namespace

Node lower_reduce(Node kernel) { return Lowering().run(kernel); }

}  // namespace lathe
