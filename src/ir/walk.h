// Traversal of graphs without recursion: a chain of a million nodes must not overflow the stack. NodeMap is a
// map from nodes that iterates in insertion order, so that the result of a pass does not depend on addresses.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/small_vector.h"
#include "ir/node.h"

namespace lathe {

template <class T>
class NodeMap {
 public:
  struct Entry {
    Node node;
    T value;
  };

  // The value of `node`, or null.
  T* find(Node node) {
    if (entries_.empty()) return nullptr;
    for (std::size_t i = home(node);; i = (i + 1) & mask_) {
      std::uint32_t e = index_[i];
      if (e == 0) return nullptr;
      if (entries_[e - 1].node == node) return &entries_[e - 1].value;
    }
  }
  const T* find(Node node) const { return const_cast<NodeMap*>(this)->find(node); }
  bool contains(Node node) const { return find(node) != nullptr; }

  // The value of `node`, made by default if new.
  T& operator[](Node node) { return *try_emplace(node).first; }

  // Adds a value unless there is one; says whether it did.
  std::pair<T*, bool> try_emplace(Node node, T value = T()) {
    if ((entries_.size() + 1) * 2 > index_.size()) grow();
    std::size_t i = home(node);
    for (; index_[i] != 0; i = (i + 1) & mask_)
      if (entries_[index_[i] - 1].node == node) return {&entries_[index_[i] - 1].value, false};
    entries_.push_back({node, std::move(value)});
    index_[i] = static_cast<std::uint32_t>(entries_.size());
    return {&entries_.back().value, true};
  }

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  void clear() {
    entries_.clear();
    index_.assign(index_.size(), 0);
  }
  void reserve(std::size_t n) {
    while (index_.size() < n * 2) grow();
    entries_.reserve(n);
  }

 private:
  std::size_t home(Node node) const {
    return (reinterpret_cast<std::uintptr_t>(node.get()) * 0x9E3779B97F4A7C15ull >> 20) & mask_;
  }
  void grow() {
    std::size_t size = index_.empty() ? 32 : index_.size() * 2;
    index_.assign(size, 0);
    mask_ = size - 1;
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      std::size_t i = home(entries_[e].node);
      while (index_[i] != 0) i = (i + 1) & mask_;
      index_[i] = static_cast<std::uint32_t>(e + 1);
    }
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> index_;
  std::size_t mask_ = 0;
};

// All nodes reachable from the roots, operands before users; operands are visited in order. With `enter`,
// only the operands of nodes for which it returns true are followed.
std::vector<Node> toposort(std::span<const Node> roots);
inline std::vector<Node> toposort(Node root) { return toposort(std::span<const Node>(&root, 1)); }
std::vector<Node> toposort(std::span<const Node> roots, bool (*enter)(Node));

// For each node of an order, the number of operand slots that refer to it.
NodeMap<std::uint32_t> use_counts(std::span<const Node> order);

// The root with nodes replaced by those in `map`; all others are rebuilt over their new operands (through
// `apply`, so operand order stays canonical).
Node substitute(Node root, const NodeMap<Node>& map);

// Rebuilds a node over other operands in canonical form (`apply` for scalar ops).
Node rebuild(Node node, std::span<const Node> args);

// Rebuilds a graph in the order of a toposort. `change` returns the replacement of a node, given the node and
// its new operands, or null for the node itself over these operands. `done` maps each node to its
// replacement.
template <class Change>
Node rebuilt(std::span<const Node> order, NodeMap<Node>& done, Change&& change) {
  done.reserve(order.size());
  for (Node n : order) {
    SmallVector<Node, 16> args;
    for (Node a : n.args()) args.push_back(*done.find(a));
    Node changed = change(n, std::span<const Node>(args.data(), args.size()));
    if (!changed)
      changed = n.arg_count() == 0 ? n : rebuild(n, std::span<const Node>(args.data(), args.size()));
    done.try_emplace(n, changed);
  }
  return *done.find(order.back());
}

}  // namespace lathe
