// The implementation behind Tensor handles, and the functions that all files of this folder use. A Storage
// holds the graph of a base value; a TensorImpl is a view of it: the chain of movement ops from the base.
// Writing through any handle gives the storage a new value (a new version), and every handle re-applies its
// chain to that value at its next use. Graphs that were built before keep the node they refer to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/device_of.h"
#include "ir/node.h"
#include "ir/shape.h"
#include "ir/walk.h"
#include "lathe/memory.h"
#include "lathe/tensor.h"

namespace lathe {

using Nodes = SmallVector<Node, 8>;
using Axes = SmallVector<std::int64_t, 8>;

struct SizeExpr {
  NodeRef node;
};

// What a value was computed from, as far as its expression does not tell.
struct Origin {
  bool tracked = false;  // something that requires a gradient
  bool unsaid = false;   // dropout or batch norm in a mode that nobody had said (lathe/unsaid_mode.h)

  Origin operator|(Origin other) const { return {tracked || other.tracked, unsaid || other.unsaid}; }
};

struct Storage {
  Storage(Node v, std::string d);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  NodeRef value;
  std::string device;
  PlaceRef made;              // the line that made it, where somebody says
  bool copied = false;        // another one's value on purpose: gradients of that one pass through it
  bool apart = false;         // computed where gradients are off, and not read elsewhere yet
  std::uint64_t number = 0;   // storages are numbered as they are made
  std::uint64_t version = 0;  // grows whenever `value` changes
  bool tracked = false;       // the value's expression leads to something that requires a gradient
  bool unsaid = false;        // what Origin says
  bool unasked = false;       // a gradient nobody asked for: given up rather than computed for a write
  bool lost = false;          // was given up
  std::thread::id writer;     // the thread whose write is pending
  Storage *before = nullptr, *after = nullptr;  // the list of live storages, oldest first
};

// One movement op (or Detach, Bitcast) of a chain. `model` is the op over whatever it was first applied to.
struct ViewStep {
  std::shared_ptr<const ViewStep> parent;
  NodeRef model;
  bool overlaps;  // some element of the base is named twice from here on
};

struct TensorImpl {
  std::shared_ptr<Storage> storage;      // shared by all aliases
  std::shared_ptr<const ViewStep> view;  // null: all of the base
  bool tracked = false;                  // made from something that requires a gradient
  bool unsaid = false;                   // what Origin says
  bool leaf = false;                     // requires_grad_(): backward() fills grad
  bool refused = false;                  // requires_grad_(false)
  bool detached = false;
  bool apart = false;    // a view made where gradients are off, and not read elsewhere yet
  bool expects = false;  // lathe/expected_gradient.h
  bool missed = false;   // a pass should have given it a gradient, and could not
  bool weak = false;     // a Python or C++ number without axes: of its kind, but of no width of its own
  std::optional<Tensor> grad;
  void* front = nullptr;  // the binding's object of this handle

  // Remembered for one version of the storage.
  NodeRef node;
  std::uint64_t node_version = ~std::uint64_t{0};
  std::optional<Shape> shape;
};

// Guards every storage's value and the list of live ones. Held for short steps only, never while devices
// work.
std::recursive_mutex& storage_mutex();

// The node this handle stands for now. Throws UserError for an empty handle.
Node node_of(const Tensor& t);
bool is_tracked(const Tensor& t);
Origin origin_of(const Tensor& t);
bool grad_enabled();

// Inside, what is computed where gradients are off keeps its expression: for what says by itself whether its
// result takes part.
class UntrackedScope {
 public:
  UntrackedScope();
  ~UntrackedScope();
  UntrackedScope(const UntrackedScope&) = delete;
  UntrackedScope& operator=(const UntrackedScope&) = delete;

 private:
  bool cut_;
};

// What a function reads that is older than the watch and that no graph of it names: constants, as they were
// (a graph holds the value and not where it came from), and handles, which may be given another storage.
// Whoever keeps the graph must ask whether they are still that.
struct OutsideReads {
  struct Constant {
    std::weak_ptr<Storage> storage;
    NodeRef value;
  };
  struct Handle {
    std::weak_ptr<TensorImpl> impl;
    std::uint64_t storage = 0;  // its number
  };
  std::uint64_t begin = 0;  // number of the first storage that is not watched
  std::vector<Constant> constants;
  std::unordered_map<const TensorImpl*, Handle> handles;
};
// What this thread reads from now on is written down there; null stops it. Gives the one before.
OutsideReads* watch_reads(OutsideReads* reads);
// The function is done: what it replaced itself is what it reads from now on. `inputs` are not outside.
void finish_reads(OutsideReads& reads, std::span<const Tensor> inputs);
// The first constant that is another value now, or gone; the first handle that has another storage. Null
// where all are as they were.
const OutsideReads::Constant* changed_constant(const OutsideReads& reads);
std::shared_ptr<TensorImpl> replaced_handle(const OutsideReads& reads);

// A tensor with a storage of its own.
Tensor make_tensor(Node value, std::string_view device, Origin origin = {});
// The same, on the device of `like` and of its origin.
Tensor make_like(const Tensor& like, Node value);
// A value that is kept in memory, or beside other values, from now on: cut off where gradients are off.
Node kept_value(Node value);
// The same value in a storage of its own: a write to one of them is not the other's.
Tensor as_own(const Tensor& x);
// A handle to x's storage through one more movement op: `moved` is that op over node_of(x).
Tensor make_view(const Tensor& x, Node moved);

// A handle to the same with the same origin, not weak: its dtype counts.
Tensor another_handle(const Tensor& x);

// A movement op over another operand, of another dtype.
Node moved(Node model, Node x);

// Writes `value` (of the handle's shape and dtype) through the handle: a new version of its storage.
void store_into(const Tensor& target, Node value, Origin origin, std::string_view op);

// Whether another live storage has the same value. Equal expressions are one node, so no graph tells which of
// the two it read.
bool has_twin(const Storage& s);
NodeMap<int> value_holders();  // how many live storages have each value

// The value stored in a buffer of its own, as the first version of that buffer.
Node stored_value(Node value, std::string_view device);

// Every live storage's latest value, for capture and memory reports.
std::vector<NodeRef> live_values();

// Handles with requires_grad_, oldest first.
std::vector<Tensor> live_leaves();
void remember_leaf(const std::shared_ptr<TensorImpl>& impl);

// ---- sizes
Node size_node(const Size& size);
Size size_of(Node node);
Nodes size_nodes(const Shape& shape);
Shape shape_of_nodes(std::span<const Node> sizes);
Node size_product(std::span<const Node> sizes);  // in one canonical form
std::optional<Node> exact_quotient(std::span<const Node> total, std::span<const Node> known);

// ---- dtypes
inline DType ir_dtype(DataType d) { return DType(d.scalar); }
inline DataType data_type(DType d) { return DataType(d.scalar); }
int dtype_kind(DataType d);  // 0 bool, 1 integer, 2 float: what a weak tensor can lift another to

// ---- node helpers
bool is_one(Node size);
// An axis from -rank..rank-1 as 0..rank-1; throws UserError naming the op.
std::int64_t resolve_axis(std::int64_t axis, std::int64_t rank, std::string_view op);
Axes resolve_axes(const Ints& axes, std::int64_t rank, std::string_view op);  // sorted; none means all
// The movement ops, folding those over a constant everywhere.
Node reshape_to(Node x, std::span<const Node> sizes);
Node expand_to(Node x, std::span<const Node> sizes);
Node permute_to(Node x, std::span<const std::int64_t> order);
Node shrink_to_bounds(Node x, std::span<const Node> begin, std::span<const Node> end);
// x with leading axes of 1 and its axes of 1 grown; throws UserError where that cannot be.
Node broadcast_to(Node x, std::span<const Node> sizes, std::string_view op);
// The common shape by numpy's rule; throws UserError naming both shapes.
Nodes broadcast_shapes(std::span<const Node> a, std::span<const Node> b, std::string_view op);

// The device both tensors are on. A constant without axes on the default device is a number and goes where
// the other is; else throws UserError naming both tensors where they are on different devices.
std::string common_device(std::string_view op, const Tensor& a, const Tensor& b);
inline void check_same_device(std::string_view op, const Tensor& a, const Tensor& b) {
  static_cast<void>(common_device(op, a, b));
}
// A tensor as errors name it: "(2, 3) float32 on CPU".
std::string describe(const Tensor& t);

// ---- operations on tensors of one dtype, broadcasting
Tensor primitive(Op op, const Tensor& x);
Tensor primitive(Op op, const Tensor& x, const Tensor& y);
Tensor select(const Tensor& condition, const Tensor& x, const Tensor& y);
// An operand as a tensor beside `beside`: literals adapt to `dtype` (rank 0).
Tensor operand_tensor(const Operand& operand, const Tensor& beside, DataType dtype);
// The dtype two tensors meet in. One that is weak gives its kind (bool, integer, float) and no more.
DataType common_dtype(const Tensor& a, const Tensor& b);
// The dtype an operand and a tensor meet in.
DataType operand_dtype(const Operand& operand, const Tensor& beside);
// cast(), which leaves a weak tensor weak.
Tensor converted(const Tensor& x, DataType to);
// A rank-0 constant on the device of `like`; weak, since it stands for a number.
Tensor constant(Number value, DataType dtype, const Tensor& like);
// 0 of x's dtype, as a constant that needs no axes.
inline Tensor zero_beside(const Tensor& x) { return constant(0, x.dtype(), x); }
// Reduce by one op over sorted axes, which stay with size 1; no change of dtype.
Tensor reduce_keep(Op op, const Tensor& x, std::span<const std::int64_t> axes);
// 0, 1, ..., n-1 along `axis` of a shape of `rank` axes that are 1 elsewhere.
Tensor iota_along(const Size& n, std::int64_t axis, std::int64_t rank, DataType dtype,
                  const std::string& device);
// Windows of the last `kernel.size()` axes: (..., o..., k...), o[i] * stride + k[i] * dilation.
Tensor windows(const Tensor& x, std::span<const std::int64_t> kernel, std::span<const std::int64_t> stride,
               std::span<const std::int64_t> dilation);
// The opposite: adds windows (..., o..., k...) at their original positions, (..., n...).
Tensor unskewed_windows(const Tensor& windows, std::span<const std::int64_t> stride,
                        std::span<const std::int64_t> dilation);
// Gradients as graphs: of the sum of root * seed with respect to each target (a null node where there is
// none). Versions of memory before one of `writes` get nothing from those after it.
std::vector<Node> gradients(Node root, Node seed, std::span<const Node> targets, const std::string& device,
                            std::span<const Node> writes = {});

}  // namespace lathe
