#include "tensor/differentiated.h"

#include <algorithm>

#include "tensor/given_up.h"
#include "tensor/realize.h"
#include "tensor/versions.h"

namespace lathe {
namespace {

// What takes part in the gradient: nothing behind a detach().
std::vector<Node> taking_part(Node root) {
  return toposort(std::span<const Node>(&root, 1), [](Node n) { return !n.is(Op::Detach); });
}

// A copy of what is there already passes its gradient on to it.
bool reaches(Node from, std::span<const Node> nodes) {
  for (Node n : toposort(from))
    if (std::find(nodes.begin(), nodes.end(), n) != nodes.end()) return true;
  return false;
}

}  // namespace

Differentiated::Differentiated(Node root) : root_(root), order_(taking_part(root)) {
  use(root);
  for (Node n : order_) {
    in_graph_[n] = 1;
    if (n.is(Op::Detach)) continue;
    for (std::size_t i = n.is(Op::After) ? 1 : 0; i < n.arg_count(); ++i)
      if (is_memory(n.arg(i))) use(n.arg(i));
  }
  for (Node n : toposort(root)) {
    in_graph_.try_emplace(n, 0);
    for (std::size_t i = n.is(Op::After) ? 1 : 0; i < n.arg_count(); ++i)
      reads_overwritten_ |=
          is_memory(n.arg(i)) && is_overwritten(n.arg(i));  // slopes may be computed from it
  }
}

bool Differentiated::contains(Node n) const {
  const char* part = in_graph_.find(n);
  return part != nullptr && *part != 0;
}

bool Differentiated::has_given_up(const Tensor& target) const {
  const Storage& storage = *target.impl()->storage;
  const Node memory = memory_of(storage.value), buffer = memory ? base_memory(memory) : Node();
  if (!given_up_) {
    given_up_.emplace();
    for (Node n : order_)
      if (n.is(Op::Buffer) && n.dtype().is_float() && is_given_up(n)) given_up_->push_back(n);
  }
  return std::ranges::any_of(*given_up_,
                             [&](Node n) { return was_computed_from(n, buffer, storage.number); });
}

// The node a target has in the graph; its own where it takes no part. A tensor that was written to since
// is there as the version that was read. Where several versions are, and the tensor requires a gradient
// or is now yet another, which is meant cannot be told: null.
Node Differentiated::node_of_target(const Tensor& target) const {
  const Node now = node_of(target), memory = memory_of(target.impl()->storage->value);
  if (!memory) return now;
  const bool here = contains(now);
  if (here && !target.impl()->leaf) return now;
  const Uses* used = used_.find(base_memory(memory));
  if (!here)
    if (const std::vector<Node> computed = computed_as(target, memory); !computed.empty()) {
      const bool several = used != nullptr && used->several && versions_read(target, memory).size() > 1;
      return several ? Node() : computed[0];
    }
  if (used == nullptr || (here && !used->several)) return now;
  const std::vector<Node> read = versions_read(target, memory);
  if (read.size() > 1) return Node();
  return here || read.empty() ? now : read[0];
}

// A leaf's writes say nothing about gradients, so all its versions are the leaf, unless one was computed from
// another where gradients are on.
TargetNames Differentiated::versions_of_leaf(const Tensor& leaf, Node memory) const {
  const Node buffer = base_memory(memory);
  TargetNames names{versions_read(leaf, memory, true), {}};
  for (Node old : computed_as(leaf, memory))
    if (std::ranges::find(names.nodes, old) == names.nodes.end()) names.nodes.push_back(old);
  for (Node n : order_) {
    if (!n.is(Op::After) || base_memory(n) != buffer) continue;
    names.writes.push_back(n);
    for (Node effect : n.args().subspan(1)) {
      if (!effect.is(Op::Store)) continue;
      for (Node read : taking_part(effect.arg(1)))
        if (is_memory(read) && base_memory(read) == buffer) return {};
    }
  }
  return names;
}

TargetNames Differentiated::names_of(const Tensor& target) const {
  const Node memory = memory_of(target.impl()->storage->value), known = node_of_target(target);
  if (!known && !target.impl()->leaf) return {};
  if (const Uses* used = memory ? used_.find(base_memory(memory)) : nullptr;
      target.impl()->leaf && used != nullptr && used->several)
    if (TargetNames all = versions_of_leaf(target, memory); !known || all.nodes.size() > 1) return all;
  TargetNames names{{known}, {}};
  if (memory && contains(known))
    for (Node old : computed_as(target, memory))
      if (!is_another(old) && !reaches(old, names.nodes)) names.nodes.push_back(old);
  return names;
}

// Whether another live tensor is that expression.
bool Differentiated::is_another(Node n) const {
  if (!holders_) holders_ = value_holders();
  return holders_->contains(n);
}

void Differentiated::use(Node n) {
  if (!is_memory(n)) return;
  const auto [uses, fresh] = used_.try_emplace(base_memory(n), Uses{n});
  if (!fresh && uses->version == n) return;
  uses->several |= !fresh;
}

// A tensor that was realised since is there as expressions whose value its buffer now holds.
std::vector<Node> Differentiated::computed_as(const Tensor& target, Node memory) const {
  std::vector<Node> found;
  if (memory.is(Op::After) && !realized(memory)) return found;
  const TensorImpl& impl = *target.impl();
  const Node value = impl.storage->value, buffer = base_memory(memory);
  for (Node m : order_) {
    if (realized(m) != buffer || (m.is(Op::After) && is_overwritten(m))) continue;
    const Node base = m.is(Op::After) ? over_memory(value, memory, m) : m;
    if (base.shape_node() != value.shape_node()) continue;
    const Node old = apply_view(impl.view, base);
    if (contains(old)) found.push_back(old);
  }
  return found;
}

// The target over each version of its memory that is read, other than by the store that made a later one.
// The names of what the memory holds now are one version: the store that made it, and those it has since. The
// first of them stands for it, or each for itself.
std::vector<Node> Differentiated::versions_read(const Tensor& target, Node memory, bool all_names) const {
  const TensorImpl& impl = *target.impl();
  const Node value = impl.storage->value, buffer = base_memory(memory);
  std::vector<Node> found, stack{root_};
  NodeMap<char> seen;
  bool found_current = false;
  while (!stack.empty()) {
    const Node n = stack.back();
    stack.pop_back();
    if (!seen.try_emplace(n, 1).second) continue;
    if (is_memory(n) && base_memory(n) == buffer) {
      const Node old = apply_view(impl.view, over_memory(value, memory, n));
      const bool current = (!n.is(Op::After) || realized(n)) && !is_overwritten(n);
      const bool again = current && found_current && !all_names;
      if (contains(old) && !again && std::ranges::find(found, old) == found.end()) found.push_back(old);
      found_current |= current && contains(old);
      continue;
    }
    if (n.is(Op::Detach)) continue;  // what is read there has no part in the gradient
    for (Node a : n.args()) stack.push_back(a);
  }
  return found;
}

}  // namespace lathe
