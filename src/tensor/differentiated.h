// A graph that is differentiated, and where tensors stand in it: a tensor that was written to since it was
// read is there as the version that was read, and one that was realized since as the expression that it was.
#pragma once

#include <optional>
#include <vector>

#include "tensor/impl.h"

namespace lathe {

// Memory, or a version of it.
inline bool is_memory(Node n) { return n.is(Op::Buffer) || n.is(Op::After); }

// The names a tensor has in a graph; its gradient is the sum of theirs. Where the graph reads several
// versions of its memory, `writes` are what parts them. No names: which version is meant cannot be told.
struct TargetNames {
  std::vector<Node> nodes, writes;
};

class Differentiated {
 public:
  explicit Differentiated(Node root);

  // Whether some memory it reads was overwritten since.
  bool reads_overwritten() const { return reads_overwritten_; }
  // Whether it has a part in the gradient; whether it is read at all.
  bool contains(Node n) const;
  bool reads(Node n) const { return in_graph_.contains(n); }
  // Whether it reads something that was computed from the target and has no expression any more.
  bool has_given_up(const Tensor& target) const;
  // The expressions whose value the tensor's buffer holds, where it was realised between two uses, have a
  // part of its gradient. So do the versions of a leaf, which is written where gradients do not see it.
  TargetNames names_of(const Tensor& target) const;

 private:
  // Versions of memory that something else than a later version uses.
  struct Uses {
    Node version;
    bool several = false;
  };
  void use(Node n);
  Node node_of_target(const Tensor& target) const;
  TargetNames versions_of_leaf(const Tensor& leaf, Node memory) const;
  bool is_another(Node n) const;
  std::vector<Node> computed_as(const Tensor& target, Node memory) const;
  std::vector<Node> versions_read(const Tensor& target, Node memory, bool all_names = false) const;

  Node root_;
  std::vector<Node> order_;
  NodeMap<char> in_graph_;
  NodeMap<Uses> used_;  // by buffer
  bool reads_overwritten_ = false;
  mutable std::optional<std::vector<Node>> given_up_;  // worked out for the first that needs it
  mutable std::optional<NodeMap<int>> holders_;        // worked out for the first that needs it
};

}  // namespace lathe
