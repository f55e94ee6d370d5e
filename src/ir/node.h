// The one node type. A Node is a handle to an immutable, interned {op, dtype, args, attr}: two nodes are
// equal exactly when their handles are. Handles are plain pointers, so passes copy and compare them freely;
// what keeps nodes alive is counted separately:
//
//   * a node keeps its args alive;
//   * a NodeRef (held by tensors, caches, anything long-lived) keeps a node alive;
//   * every node made on a thread stays alive until that thread's outermost Scope closes.
//
// So code that makes nodes opens a Scope, works with bare Nodes, and hands out NodeRefs. A thread without an
// open Scope keeps what it makes until its next outermost Scope closes. Interning is safe from any number of
// threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"
#include "ir/op.h"

namespace lathe {

class Node;
struct NodeData;

// The part of a node that is neither an operand nor a dtype: nothing, one number, or a text with a list of
// numbers.
struct AttrData {
  std::string text;
  std::vector<std::int64_t> ints;
  bool operator==(const AttrData&) const = default;
};

struct Attr {
  enum class Kind : std::uint8_t { None, Int, Float, Data };
  Kind kind = Kind::None;
  union {
    std::int64_t i;
    double f;
    const AttrData* data;  // borrowed: the interner copies it when the node is new
  };

  Attr() : i(0) {}
  static Attr of(std::int64_t v) {
    Attr a;
    a.kind = Kind::Int;
    a.i = v;
    return a;
  }
  static Attr of(double v) {
    Attr a;
    a.kind = Kind::Float;
    a.f = v;
    return a;
  }
  static Attr of(const AttrData& d) {
    Attr a;
    a.kind = Kind::Data;
    a.data = &d;
    return a;
  }
  bool operator==(const Attr& other) const;
};

class Node {
 public:
  constexpr Node() = default;
  explicit constexpr Node(const NodeData* data) : data_(data) {}

  explicit operator bool() const { return data_ != nullptr; }
  bool operator==(const Node&) const = default;
  const NodeData* get() const { return data_; }
  const NodeData* operator->() const { return data_; }

  Op op() const;
  DType dtype() const;
  std::span<const Node> args() const;
  Node arg(std::size_t i) const;
  std::size_t arg_count() const;
  const Attr& attr() const;

  // The attribute, by what the op's row says it holds; asking for another kind is an internal error.
  std::int64_t int_attr() const;
  double float_attr() const;
  std::span<const std::int64_t> ints() const;
  const std::string& text() const;

  bool is(Op op) const { return data_ != nullptr && this->op() == op; }
  bool is_const() const { return is(Op::Const); }
  bool is_const_int(std::int64_t value) const;  // an integer, index or bool constant of this value
  std::int64_t const_int() const;               // of an integer, index or bool constant
  double const_float() const;                   // of any constant

  // Bounds of the value, both inclusive, of integer, index and bool nodes (of all lanes); a sound
  // over-estimate.
  std::int64_t lo() const;
  std::int64_t hi() const;

  std::uint64_t key() const;  // structural key: equal for equal structure whatever the identities of buffers

  // The shape (tensor graph); empty for scalars and for nodes of kernels and programs.
  std::span<const Node> shape() const;
  Node shape_node() const;  // the Dims node, or null for rank 0: equal shapes are equal handles
  std::size_t rank() const { return shape().size(); }

  // The same op, dtype and attribute over other operands (itself where they are the same).
  Node with_args(std::span<const Node> args) const;

 private:
  const NodeData* data_ = nullptr;
};

struct NodeData {
  Op op;
  bool owns_shape;  // holds a count on shape
  DType dtype;
  mutable std::atomic<std::uint32_t> refs;
  std::uint32_t arg_count;
  std::uint64_t hash;  // of identity: interning
  std::uint64_t key;   // of structure: ordering, cache keys
  Attr attr;           // Data is owned
  std::int64_t lo, hi;
  const NodeData* shape;  // Dims node or null
  mutable std::atomic<const NodeData*>
      ranges;  // memo of ranges_of (ir/ranges.h): a Dims node or null; counted
  mutable std::atomic<const NodeData*> realized;  // buffer that holds this value (engine); counted
  mutable std::uint64_t mark;                     // the last walk that met it (ir/walk.cpp); 0 for none

  Node* args() { return reinterpret_cast<Node*>(this + 1); }
  const Node* args() const { return reinterpret_cast<const Node*>(this + 1); }
};

inline Op Node::op() const { return data_->op; }
inline DType Node::dtype() const { return data_->dtype; }
inline std::span<const Node> Node::args() const { return {data_->args(), data_->arg_count}; }
inline Node Node::arg(std::size_t i) const { return data_->args()[i]; }
inline std::size_t Node::arg_count() const { return data_->arg_count; }
inline const Attr& Node::attr() const { return data_->attr; }
inline std::int64_t Node::lo() const { return data_->lo; }
inline std::int64_t Node::hi() const { return data_->hi; }
inline std::uint64_t Node::key() const { return data_->key; }
inline Node Node::shape_node() const { return Node(data_->shape); }
inline std::span<const Node> Node::shape() const {
  return data_->shape == nullptr ? std::span<const Node>() : Node(data_->shape).args();
}

// Makes (or finds) a node exactly as given: no ordering of operands, no folding. ir/build.h is what most code
// wants.
Node intern(Op op, DType dtype, std::span<const Node> args, const Attr& attr = {});
inline Node intern(Op op, DType dtype, std::initializer_list<Node> args, const Attr& attr = {}) {
  return intern(op, dtype, std::span<const Node>(args.begin(), args.size()), attr);
}

// While a thread has a Scope open, every node it makes or finds stays alive.
class Scope {
 public:
  Scope();
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

// A counted reference: keeps a node (and all below it) alive.
class NodeRef {
 public:
  NodeRef() = default;
  NodeRef(Node node);  // NOLINT: a node is a reference to itself
  NodeRef(const NodeRef& other);
  NodeRef(NodeRef&& other) noexcept : node_(other.node_) { other.node_ = Node(); }
  NodeRef& operator=(const NodeRef& other);
  NodeRef& operator=(NodeRef&& other) noexcept;
  ~NodeRef();
  operator Node() const { return node_; }  // NOLINT
  Node node() const { return node_; }
  const Node* operator->() const { return &node_; }
  explicit operator bool() const { return static_cast<bool>(node_); }
  bool operator==(const NodeRef& other) const { return node_ == other.node_; }

 private:
  Node node_;
};

// Remembers that `buffer` (an Op::Buffer node, or null to forget) holds the value of `node`.
void set_realized(Node node, Node buffer);
Node realized(Node node);

// Keeps the memo of ranges_of (ir/ranges.h); the first thread to say it wins.
void remember_ranges(Node node, Node set);

// Called with the id of every Op::Buffer node that dies, so that its memory can be returned. Set once, by the
// runtime.
void set_buffer_death_hook(void (*hook)(std::int64_t buffer_id));

struct InternerStats {
  std::uint64_t live;     // nodes alive now
  std::uint64_t created;  // ever
  std::uint64_t hits;     // intern calls that found the node
};
InternerStats interner_stats();

}  // namespace lathe

template <>
struct std::hash<lathe::Node> {
  std::size_t operator()(lathe::Node n) const noexcept {
    return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(n.get()) * 0x9E3779B97F4A7C15ull >> 7);
  }
};
