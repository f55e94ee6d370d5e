// Which loops each node of a kernel depends on, worked out from the meaning of the ops alone. Tokens stand
// for what opens a scope: a range, the running values of a fold, and "inside a thread". A component of a fold
// depends only on what it and the components its step reads depend on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/walk.h"

namespace lathe::reference {

class Dependencies {
 public:
  // `thread_ranges` are the ranges that become threads: whatever holds one must run inside a thread.
  Dependencies(Node root, std::span<const Node> thread_ranges);

  static constexpr std::uint32_t kThreadToken = 0;
  bool holds(Node node) const { return numbers_.contains(node); }
  std::uint32_t range_token(Node range) const { return *ranges_.find(range); }
  std::uint32_t carry_token(std::int64_t fold) const;

  bool depends(Node node, std::uint32_t token) const {
    return bits_[*numbers_.find(node) * words_ + token / 64] >> (token % 64) & 1;
  }

  // Whether the node depends on nothing but these tokens.
  bool depends_only_on(Node node, std::span<const std::uint32_t> tokens) const;

  // The components that component c of a fold needs, itself included, ascending.
  std::vector<std::size_t> needed(Node fold, std::size_t c) const;

  const std::vector<Node>& order() const { return order_; }

 private:
  void find_tokens(std::span<const Node> thread_ranges);
  void fill(Node node, std::span<const Node> thread_ranges);
  std::uint64_t* row(Node node) { return &bits_[*numbers_.find(node) * words_]; }
  void add(Node to, Node from);
  void add_token(Node to, std::uint32_t token) { row(to)[token / 64] |= std::uint64_t{1} << (token % 64); }
  void drop_token(Node to, std::uint32_t token) {
    row(to)[token / 64] &= ~(std::uint64_t{1} << (token % 64));
  }

  std::vector<Node> order_;
  NodeMap<std::uint32_t> numbers_, ranges_;
  std::vector<std::pair<std::int64_t, std::uint32_t>> carries_;
  NodeMap<std::vector<std::vector<bool>>> reads_;  // fold -> component -> components its step reads
  std::vector<std::uint64_t> bits_;
  std::size_t words_ = 1;
};

}  // namespace lathe::reference
