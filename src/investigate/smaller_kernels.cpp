#include "investigate/smaller_kernels.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe::investigate {
namespace {

// A graph with nodes replaced, where a range that becomes a number is closed no more.
Node replaced(Node kernel, const NodeMap<Node>& map) {
  NodeMap<Node> done;
  const std::vector<Node> order = toposort(kernel);
  return rebuilt(order, done, [&](Node n, std::span<const Node> args) -> Node {
    if (const Node* to = map.find(n)) return *to;
    if (n.is(Op::End) || n.is(Op::Reduce)) {
      std::vector<Node> ranges;
      for (std::size_t i = 1; i < args.size(); ++i)
        if (args[i].is(Op::Range)) ranges.push_back(args[i]);
      if (ranges.size() + 1 == args.size()) return Node();
      return n.is(Op::End) ? end(args[0], ranges) : reduce_ranges(reduce_op(n), args[0], ranges);
    }
    return Node();
  });
}

Node with(Node kernel, Node from, Node to) {
  NodeMap<Node> map;
  map[from] = to;
  return replaced(kernel, map);
}

bool is_closed_by_fold(std::span<const Node> order, Node range) {
  return std::ranges::any_of(order, [&](Node n) {
    const std::span<const Node> closed = closed_ranges(n);
    return n.is(Op::Fold) && std::ranges::find(closed, range) != closed.end();
  });
}

Node shorter(Node kernel, Node range, std::int64_t extent) {
  Node args[] = {number(range.arg(0).dtype(), static_cast<double>(extent))};
  return with(kernel, range, intern(range.op(), range.dtype(), args, range.attr()));
}

bool is_value(Node n) {
  return (is_scalar_op(n.op()) || n.is(Op::Load) || n.is(Op::Reduce) || n.is(Op::Cast) || n.is(Op::Bitcast) ||
          n.is(Op::Get) || n.is(Op::Check)) &&
         n.dtype().lanes == 1 && n.dtype() != dtypes::Void;
}

}  // namespace

Candidates effects_dropped(Node kernel, const reference::Bindings& /*bindings*/) {
  Candidates out;
  if (kernel.arg_count() < 2) return out;
  for (std::size_t i = 0; i < kernel.arg_count(); ++i)
    out.push_back([kernel, i] {
      std::vector<Node> effects(kernel.args().begin(), kernel.args().end());
      effects.erase(effects.begin() + static_cast<std::ptrdiff_t>(i));
      return sink(effects);
    });
  return out;
}

Candidates variables_bound(Node kernel, const reference::Bindings& bindings) {
  Candidates out;
  for (Node n : toposort(kernel))
    for (const auto& [name, value] : bindings)
      if (n.is(Op::Var) && n.text() == name)
        out.push_back([kernel, n, value = value] {
          return with(kernel, n, number(n.dtype(), static_cast<double>(value)));
        });
  return out;
}

Candidates ranges_dropped(Node kernel, const reference::Bindings& /*bindings*/) {
  Candidates out;
  const std::vector<Node> order = toposort(kernel);
  for (Node r : all_ranges(kernel))
    if (!is_closed_by_fold(order, r)) out.push_back([kernel, r] { return with(kernel, r, index_const(0)); });
  return out;
}

Candidates ranges_shortened(Node kernel, const reference::Bindings& /*bindings*/) {
  Candidates out;
  for (Node r : all_ranges(kernel)) {
    if (!r.arg(0).is_const()) continue;
    const std::int64_t extent = r.arg(0).const_int();
    std::vector<std::int64_t> sizes{1, 2, 3, 4, 5, 8, 16, 17, extent / 4, extent / 2, extent - 1};
    std::ranges::sort(sizes);
    sizes.erase(std::ranges::unique(sizes).begin(), sizes.end());
    for (const std::int64_t size : sizes)
      if (size > 0 && size < extent) out.push_back([kernel, r, size] { return shorter(kernel, r, size); });
  }
  return out;
}

// From the results down, so that the largest parts go first.
Candidates nodes_replaced(Node kernel, const reference::Bindings& /*bindings*/) {
  Candidates out;
  const std::vector<Node> order = toposort(kernel);
  for (std::size_t i = order.size(); i-- > 0;) {
    const Node n = order[i];
    if (!is_value(n)) continue;
    if (n.dtype().is_index() || n.dtype().is_bool())
      out.push_back([kernel, n] { return with(kernel, n, number(n.dtype(), 0)); });
    if (!n.dtype().is_index()) out.push_back([kernel, n] { return with(kernel, n, number(n.dtype(), 1)); });
    if (n.is(Op::Reduce)) {
      out.push_back([kernel, n] {
        NodeMap<Node> first;
        for (Node r : closed_ranges(n)) first[r] = index_const(0);
        return with(kernel, n, replaced(n.arg(0), first));
      });
      continue;
    }
    if (n.is(Op::Load)) continue;
    for (Node a : n.args())
      if (a.dtype() == n.dtype() && !a.is_const())
        out.push_back([kernel, n, a] { return with(kernel, n, a); });
    // What has another dtype is cast; of a cast, what it casts is left out.
    if (n.dtype().is_index() || n.is(Op::Bitcast)) continue;
    const auto takes = [&](Node a) { return !a.is_const() && !a.dtype().is_index() && a.dtype().lanes == 1; };
    for (Node a : n.is(Op::Cast) ? n.arg(0).args() : n.args())
      if (takes(a) && (n.is(Op::Cast) ? is_scalar_op(n.arg(0).op()) : a.dtype() != n.dtype()))
        out.push_back([kernel, n, a] { return with(kernel, n, cast(a, n.dtype())); });
  }
  return out;
}

Candidates gates_dropped(Node kernel, const reference::Bindings& /*bindings*/) {
  Candidates out;
  for (Node n : toposort(kernel)) {
    const std::size_t gate = n.is(Op::Load) ? 2 : n.is(Op::Store) ? 3 : n.arg_count();
    if (gate >= n.arg_count()) continue;
    out.push_back([kernel, n, gate] {
      return with(kernel, n, intern(n.op(), n.dtype(), n.args().first(gate), n.attr()));
    });
  }
  return out;
}

Candidates dtypes_plain(Node kernel, const reference::Bindings& /*bindings*/) {
  Candidates out;
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Param) || n.dtype().is_bool()) continue;
    const DType plain = n.dtype().is_float() ? dtypes::Float32 : dtypes::Int32;
    if (n.dtype() == plain) continue;
    out.push_back([kernel, n, plain] {
      const Node other = param(plain, param_slot(n), memory_size(n));
      NodeMap<Node> done;
      const std::vector<Node> order = toposort(kernel);
      return rebuilt(order, done, [&](Node at, std::span<const Node> args) -> Node {
        if (at == n) return other;
        if (at.is(Op::Load) && at.arg(0) == n)
          return cast(load(other, args[1], args.size() > 2 ? args[2] : Node()), n.dtype());
        if (at.is(Op::Store) && at.arg(0) == n)
          return store(other, args[1], cast(args[2], plain), args.size() > 3 ? args[3] : Node());
        if (at.is(Op::Cast)) {  // there and back again
          const Node x = args[0].is(Op::Cast) && args[0].dtype() == n.dtype() ? args[0].arg(0) : args[0];
          return cast(x, at.dtype());
        }
        return Node();
      });
    });
  }
  return out;
}

Candidates memory_trimmed(Node kernel, const reference::Bindings& /*bindings*/) {
  Candidates out;
  const std::vector<Node> order = toposort(kernel);
  for (Node n : order) {
    if (!n.is(Op::Param)) continue;
    std::int64_t needed = 1;
    for (Node access : order)
      if ((access.is(Op::Load) || access.is(Op::Store)) && base_memory(access.arg(0)) == n)
        needed = std::max(needed, access.arg(1).hi() == std::numeric_limits<std::int64_t>::max()
                                      ? memory_size(n)
                                      : access.arg(1).hi() + 1);
    if (needed < memory_size(n))
      out.push_back([kernel, n, needed] { return with(kernel, n, param(n.dtype(), param_slot(n), needed)); });
  }
  return out;
}

Node numbered(Node kernel, Subject& subject) {
  std::vector<Node> params;
  for (Node n : toposort(kernel))
    if (n.is(Op::Param)) params.push_back(n);
  std::ranges::sort(params, {}, [](Node p) { return param_slot(p); });
  NodeMap<Node> map;
  const auto moved = [&](auto& contents) {
    auto all = std::exchange(contents, {});
    for (std::size_t i = 0; i < params.size(); ++i)
      for (auto& of_slot : all)
        if (of_slot.slot == param_slot(params[i])) {
          contents.push_back(of_slot);
          contents.back().slot = static_cast<std::int64_t>(i);
        }
  };
  moved(subject.known);
  moved(subject.given);
  for (std::size_t i = 0; i < params.size(); ++i)
    if (const auto slot = static_cast<std::int64_t>(i); param_slot(params[i]) != slot)
      map[params[i]] = param(params[i].dtype(), slot, memory_size(params[i]));
  return map.empty() ? kernel : replaced(kernel, map);
}

}  // namespace lathe::investigate
