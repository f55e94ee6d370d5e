// Storages, views and versions: what happens when a handle is read and when one is written.
#include <fmt/format.h>

#include "base/env.h"
#include "lathe/modes.h"
#include "schedule/memory_view.h"
#include "tensor/file_store.h"
#include "tensor/impl.h"
#include "tensor/own_gradient.h"
#include "tensor/realize.h"

namespace lathe {
namespace {

struct LiveList {
  Storage *first = nullptr, *last = nullptr;
  std::vector<std::weak_ptr<TensorImpl>> leaves;
  std::uint64_t made = 0;
};
LiveList& live() {
  static auto* list = new LiveList;  // never destroyed: tensors may die during exit
  return *list;
}

thread_local bool grad_on = true;
thread_local bool cuts_on = true;  // whether what is computed with grad_on off is cut off

bool is_view_op(Op op) {
  return op == Op::Reshape || op == Op::Expand || op == Op::Permute || op == Op::Shrink || op == Op::Flip ||
         op == Op::Skew || op == Op::Detach || op == Op::Bitcast || op == Op::GradFence;
}

// The constant a value is everywhere, or null.
Node splat_constant(Node x) {
  while (x.is(Op::Expand) || x.is(Op::Reshape) || x.is(Op::Permute) || x.is(Op::Shrink) || x.is(Op::Flip))
    x = x.arg(0);
  return x.is_const() ? x : Node();
}

Node fold_splat(Node moved) {
  Node constant = splat_constant(moved);
  if (!constant) return moved;
  return moved.rank() == 0 ? constant : expand(constant, moved.shape());
}

Node apply_step(const ViewStep& step, Node x) {
  Nodes args(step.model->args().begin(), step.model->args().end());
  args[0] = x;
  return fold_splat(step.model->with_args(args));
}

bool overlaps(Node moved) {
  if (moved.is(Op::Expand)) return moved.shape_node() != moved.arg(0).shape_node();
  if (!moved.is(Op::Skew)) return false;
  auto size = [&](std::size_t i) { return moved.shape()[static_cast<std::size_t>(moved.ints()[i])]; };
  return !is_one(size(0)) && !is_one(size(1));  // with one position or one offset every element has one name
}

}  // namespace

std::vector<const ViewStep*> steps_of(const std::shared_ptr<const ViewStep>& view) {
  std::vector<const ViewStep*> steps;
  for (const ViewStep* s = view.get(); s != nullptr; s = s->parent.get()) steps.push_back(s);
  return {steps.rbegin(), steps.rend()};
}

std::recursive_mutex& storage_mutex() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

Storage::Storage(Node v, std::string d) : value(v), device(std::move(d)), made(current_place()) {
  std::lock_guard guard(storage_mutex());
  number = live().made++;
  before = live().last;
  (before != nullptr ? before->after : live().first) = this;
  live().last = this;
}

Storage::~Storage() {
  std::lock_guard guard(storage_mutex());
  (before != nullptr ? before->after : live().first) = after;
  (after != nullptr ? after->before : live().last) = before;
}

Storage* first_live_storage() { return live().first; }

std::vector<NodeRef> live_values() {
  std::lock_guard guard(storage_mutex());
  std::vector<NodeRef> out;
  for (Storage* s = live().first; s != nullptr; s = s->after) out.push_back(s->value);
  return out;
}

void remember_leaf(const std::shared_ptr<TensorImpl>& impl) {
  std::lock_guard guard(storage_mutex());
  // Also itself: one that asks again after it was told not to would get its gradient twice.
  std::erase_if(live().leaves, [&](const auto& leaf) { return leaf.expired() || leaf.lock() == impl; });
  live().leaves.push_back(impl);
}

std::vector<Tensor> live_leaves() {
  std::lock_guard guard(storage_mutex());
  std::vector<Tensor> out;
  for (const auto& weak : live().leaves)
    if (auto impl = weak.lock(); impl && impl->leaf) out.push_back(Tensor(impl));
  return out;
}

bool grad_enabled() { return grad_on; }
void set_grad_enabled(bool on) { grad_on = on; }
NoGradScope::NoGradScope() : before_(grad_on) { grad_on = false; }
NoGradScope::~NoGradScope() { grad_on = before_; }
UntrackedScope::UntrackedScope() : cut_(cuts_on) { cuts_on = false; }
UntrackedScope::~UntrackedScope() { cuts_on = cut_; }
GradScope::GradScope(bool on) : before_(grad_on) { grad_on = on; }
GradScope::~GradScope() { grad_on = before_; }

Tensor::Tensor() = default;
Tensor::Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

Node apply_view(const std::shared_ptr<const ViewStep>& view, Node base) {
  if (!view) return base;
  for (const ViewStep* step : steps_of(view)) base = apply_step(*step, base);
  return base;
}

namespace {

thread_local OutsideReads* outside_reads = nullptr;
thread_local std::int64_t first_buffer = 0;  // made since they are watched

void note_read(const std::shared_ptr<TensorImpl>& impl) {
  OutsideReads& reads = *outside_reads;
  const std::shared_ptr<Storage>& storage = impl->storage;
  if (storage->number >= reads.begin) return;
  reads.handles.try_emplace(impl.get(), OutsideReads::Handle{impl, storage->number});
  if (!device_of(storage->value).empty()) return;
  for (const OutsideReads::Constant& known : reads.constants)
    if (known.value == storage->value && known.storage.lock() == storage) return;
  reads.constants.push_back({storage, storage->value});
}

// Whether the value is where the constant was put when it was computed. A buffer that was written since is no
// longer what any constant is read from.
bool is_computed_from(Node value, Node constant) {
  Node memory = memory_of(value), held = realized(constant);
  return held && memory && memory == held;
}

}  // namespace

OutsideReads* watch_reads(OutsideReads* reads) {
  std::lock_guard guard(storage_mutex());
  if (reads != nullptr) {
    const Scope scope;
    reads->begin = live().made;
    first_buffer = buffer_id(new_buffer(dtypes::Bool, 0, default_device()));  // numbers go up
  }
  return std::exchange(outside_reads, reads);
}

std::optional<Watch> watch() {
  if (outside_reads == nullptr) return {};
  return Watch{outside_reads->begin, first_buffer};
}

void finish_reads(OutsideReads& reads, std::span<const Tensor> inputs) {
  std::lock_guard guard(storage_mutex());
  for (const Tensor& t : inputs) reads.handles.erase(t.impl().get());
  for (auto& [key, handle] : reads.handles)
    if (const auto impl = handle.impl.lock()) handle.storage = impl->storage->number;
}

const OutsideReads::Constant* changed_constant(const OutsideReads& reads) {
  std::lock_guard guard(storage_mutex());
  for (const OutsideReads::Constant& read : reads.constants) {
    const std::shared_ptr<Storage> storage = read.storage.lock();
    // One that was computed meanwhile is still the same value.
    if (!storage || (storage->value != read.value && !is_computed_from(storage->value, read.value)))
      return &read;
  }
  return nullptr;
}

std::shared_ptr<TensorImpl> replaced_handle(const OutsideReads& reads) {
  std::lock_guard guard(storage_mutex());
  for (const auto& [key, handle] : reads.handles)
    if (auto impl = handle.impl.lock(); impl && impl->storage->number != handle.storage) return impl;
  return nullptr;
}

namespace {

// A value computed with gradients off may be read with gradients on. Expressions are differentiated as they
// are, so the cut has to be part of the value's own expression.
void cut_off(Storage& s) {
  s.apart = false;
  if (memory_of(s.value) || viewed(s.value).is_const()) return;
  const Scope scope;
  s.value = lathe::detach(s.value);
  ++s.version;
}
void cut_off(TensorImpl& view) {
  const Scope scope;
  const bool overlaps = view.view && view.view->overlaps;
  const Node value = lathe::detach(apply_view(view.view, view.storage->value));
  view.view = std::make_shared<const ViewStep>(ViewStep{view.view, value, overlaps});
  view.apart = false;
  view.detached = true;
  view.node_version = ~std::uint64_t{0};
}

}  // namespace

Node node_of(const Tensor& t) {
  if (!t.defined()) throw UserError("tensor", "an empty Tensor was used").help("assign one to it first");
  TensorImpl& impl = *t.impl();
  std::lock_guard guard(storage_mutex());
  if (impl.storage->lost)
    throw UserError("grad", "memory that this gradient reads was overwritten before the gradient was used")
        .help("call requires_grad_() on the tensor, or read its grad before the optimizer's step");
  if (impl.storage->apart && grad_on) cut_off(*impl.storage);
  if (impl.apart && grad_on) cut_off(impl);
  if (outside_reads != nullptr) note_read(t.impl());
  if (impl.node_version != impl.storage->version) {
    Scope scope;
    impl.node = apply_view(impl.view, impl.storage->value);
    impl.node_version = impl.storage->version;
  }
  return impl.node;
}

bool is_tracked(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  return impl.leaf || (!impl.detached && !impl.apart && (impl.tracked || impl.storage->tracked));
}

Origin origin_of(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  const bool behind = impl.apart && impl.tracked && !grad_on;  // read where it was made
  return {is_tracked(t) || behind, !impl.leaf && (impl.unsaid || (!impl.detached && impl.storage->unsaid))};
}

// Whether a value of this dtype that is made now is no part of gradients.
static bool is_apart(const DType& dtype) { return !grad_on && cuts_on && dtype.is_float(); }

Node kept_value(Node value) {
  const bool cut = is_apart(value.dtype()) && !value.is(Op::Detach) && !value.is_const();
  return cut ? lathe::detach(value) : value;
}

Tensor make_tensor(Node value, std::string_view device, Origin origin) {
  if (origin.tracked) value = kept_value(value);
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = std::make_shared<Storage>(value, std::string(device));
  impl->storage->tracked = impl->tracked = origin.tracked && grad_on;
  impl->storage->unsaid = impl->unsaid = origin.unsaid;
  impl->storage->apart = is_apart(value.dtype());
  impl->node = value;
  impl->node_version = 0;
  return Tensor(std::move(impl));
}

Tensor make_like(const Tensor& like, Node value) {
  Tensor out = make_tensor(value, like.device(), origin_of(like));
  out.impl()->weak = like.impl()->weak && value.rank() == 0;
  return out;
}

Tensor as_own(const Tensor& x) {
  const Node value = node_of(x);
  const bool cut = origin_of(x).tracked && is_apart(value.dtype());  // which memory alone would not show
  if (cut && memory_of(value)) return x.clone();
  Tensor own = make_like(x, value);
  own.impl()->storage->copied = true;
  return own;
}

Tensor make_view(const Tensor& x, Node moved) {
  if (moved == node_of(x)) {
    if (!is_apart(moved.dtype())) return x;
    Tensor same = another_handle(x);
    same.impl()->weak = x.impl()->weak;
    same.impl()->tracked = origin_of(x).tracked;  // also of a view that was made where gradients are off
    same.impl()->apart = true;
    return same;
  }
  check_internal(is_view_op(moved.op()), "make_view", "not a view op");
  auto impl = std::make_shared<TensorImpl>();
  const TensorImpl& from = *x.impl();
  impl->storage = from.storage;
  impl->view = std::make_shared<const ViewStep>(
      ViewStep{from.view, moved, (from.view && from.view->overlaps) || overlaps(moved)});
  impl->tracked = origin_of(x).tracked && (grad_on || is_apart(moved.dtype()));
  impl->unsaid = origin_of(x).unsaid && !moved.is(Op::Detach);
  // A view of a tensor that asks for a gradient belongs to it, though the tensor itself was detached from
  // others.
  impl->detached = (from.detached && !from.leaf) || moved.is(Op::Detach);
  impl->apart = is_apart(moved.dtype());
  impl->weak = from.weak && moved.rank() == 0;
  impl->node = fold_splat(moved);
  impl->node_version = from.node_version;
  return Tensor(std::move(impl));
}

Tensor another_handle(const Tensor& x) {
  auto impl = std::make_shared<TensorImpl>();
  const TensorImpl& from = *x.impl();
  impl->storage = from.storage;
  impl->view = from.view;
  impl->tracked = is_tracked(x);
  impl->unsaid = origin_of(x).unsaid;
  impl->detached = from.detached && !from.leaf;
  return Tensor(std::move(impl));
}

Node stored_value(Node value, std::string_view device) {
  Node buffer = new_buffer(value.dtype(), stored_size(value.shape()), device);
  Node store;
  if (size_product(value.shape()).is_const())
    store = intern(Op::Store, dtypes::Void, {buffer, reshape_to(value, buffer.shape())});
  else
    store = intern(Op::Store, dtypes::Void, {view_of(buffer, value.shape()), value});
  return view_of(after(buffer, std::span(&store, 1)), value.shape());
}

Node memory_of(Node value) {
  while (is_movement(value.op()) && !value.is(Op::Pad) && !value.is(Op::Unskew)) value = value.arg(0);
  return value.is(Op::Buffer) || value.is(Op::After) ? value : Node();
}

Node over_memory(Node value, Node memory, Node other) {
  std::vector<Node> chain;
  for (Node n = value; n != memory; n = n.arg(0)) chain.push_back(n);
  for (std::size_t i = chain.size(); i-- > 0;) {
    Nodes args(chain[i].args().begin(), chain[i].args().end());
    args[0] = other;
    other = chain[i].with_args(args);
  }
  return other;
}

Node moved(Node model, Node x) {
  Nodes args(model.args().begin(), model.args().end());
  args[0] = x;
  return intern(model.op(), x.dtype(), args, model.attr());
}

namespace {

bool moves(const ViewStep* step) {
  return !step->model->is(Op::Detach) && !step->model->is(Op::GradFence) && !step->model->is(Op::Bitcast);
}

// The part of memory a handle writes, in the dtype of the memory: its chain without bitcasts and the ops that
// matter to gradients only. A bitcast to elements of the same width is anywhere in the chain, because the
// value is bitcast back; one that makes other elements is at its end.
Node written_view(const std::shared_ptr<const ViewStep>& view, Node base, std::string_view op) {
  if (view && view->overlaps)
    throw UserError(op, "the target is an expanded view, in which several elements share memory")
        .help("contiguous() gives every element memory of its own");
  bool same_elements = true;
  for (const ViewStep* step : steps_of(view)) {
    if (step->model->is(Op::Bitcast)) same_elements &= step->model->dtype().bytes() == base.dtype().bytes();
    if (!moves(step)) continue;
    if (!same_elements)
      throw UserError(op, "the target is a part of a bitcast view with elements of another width")
          .help("write to the whole view, or to the tensor it was made from");
    base = moved(step->model, base);
  }
  return base;
}

// The memory that writes to a value go to. An expanded one has none: its elements have several names.
Node memory_to_write(Node value) {
  const Node memory = memory_of(value);
  for (Node n = value; memory && n != memory; n = n.arg(0))
    if (overlaps(n)) return {};
  return memory;
}

bool shares_memory(const Storage& s) {
  const Node memory = base_memory(memory_of(s.value));
  for (const Storage* other = live().first; other != nullptr; other = other->after)
    if (other != &s && memory_of(other->value) && base_memory(memory_of(other->value)) == memory) return true;
  return false;
}

// Equal expressions are one node, but a parameter must be told from other tensors. Where its value is a
// constant, or an expression or memory that another tensor has too, it gets memory.
void give_identity(Storage& s) {
  Scope scope;
  std::lock_guard guard(storage_mutex());
  Node value = s.value;
  if (!size_product(value.shape()).is_const()) return;
  if (memory_of(value)) {
    if (!shares_memory(s)) return;
    s.value = stored_value(detach(value), s.device);
    ++s.version;
    return;
  }
  // What keeps its expression for gradients cannot have both; backward() refuses it.
  if (!device_of(value).empty() && (s.tracked || !has_twin(s))) return;
  s.value = stored_value(detach(value), s.device);  // the other's gradient is not this one's
  ++s.version;
}

}  // namespace

NodeMap<int> value_holders() {
  std::lock_guard guard(storage_mutex());
  NodeMap<int> out;
  for (const Storage* s = live().first; s != nullptr; s = s->after) out[s->value] += s->copied ? 0 : 1;
  return out;
}

bool has_twin(const Storage& s) {
  std::lock_guard guard(storage_mutex());
  for (const Storage* other = live().first; other != nullptr; other = other->after)
    if (other != &s && !other->copied && other->value == s.value) return true;
  return false;
}

namespace {

// A value that requires a gradient is written through a detached handle. Where nothing else has a gradient by
// way of the storage, the handle is not apart any more; else the one storage would need two gradients.
void rejoin(TensorImpl& impl, std::string_view op) {
  const std::vector<Tensor> leaves = live_leaves();
  const bool is_leafs =
      std::ranges::any_of(leaves, [&](const Tensor& leaf) { return leaf.impl()->storage == impl.storage; });
  if (impl.storage->tracked || is_leafs)
    throw UserError(op,
                    "a value that requires a gradient is written through detach() into a tensor that "
                    "takes part in gradients itself")
        .help("write to a copy: detach().clone()");
  std::shared_ptr<const ViewStep> view;
  for (const ViewStep* step : steps_of(impl.view))
    if (!step->model->is(Op::Detach))
      view = std::make_shared<const ViewStep>(ViewStep{view, step->model, step->overlaps});
  impl.view = std::move(view);
  impl.detached = false;
  impl.node_version = ~std::uint64_t{0};
}

}  // namespace

// Whether a value with gradients is computed from what memory holds. The slope may be needed when the memory
// is long overwritten, so that the values go elsewhere. A capture's state has to stay where it is.
static bool needs_what_it_overwrites(const Storage& s, Node memory, Node value) {
  if (!s.tracked || outside_reads != nullptr || !memory || (memory.is(Op::After) && !realized(memory)))
    return false;
  const Node buffer = base_memory(memory);
  const auto goes_on = [](Node n) { return !n.is(Op::Detach) && !n.is(Op::After) && !n.is(Op::Buffer); };
  for (Node n : toposort(std::span<const Node>(&value, 1), goes_on))
    if ((n.is(Op::Buffer) || n.is(Op::After)) && base_memory(n) == buffer) return true;
  return false;
}

void store_into(const Tensor& target, Node value, Origin origin, std::string_view op) {
  Scope scope;
  TensorImpl& impl = *target.impl();
  Storage& s = *impl.storage;
  if (origin.tracked && grad_on && impl.detached && !impl.leaf) rejoin(impl, op);
  std::lock_guard guard(storage_mutex());
  Node base = s.value, memory = memory_to_write(base);
  const bool whole = !impl.view;
  if (origin.tracked) value = kept_value(value);
  // Gradients do not see the write: what the storage's expression leads to keeps its gradient.
  const bool unseen = s.tracked && (!grad_on || impl.leaf || impl.detached);
  if (!grad_on || impl.leaf) origin = {};
  const bool elsewhere = origin.tracked && grad_on && !unseen && needs_what_it_overwrites(s, memory, value);
  if (whole && (!memory || elsewhere)) {
    // What is another tensor's memory is copied: a write to one of them, or a gradient for one, is not the
    // other's.
    if (memory_of(value.is(Op::Detach) ? value.arg(0) : value)) value = stored_value(value, s.device);
    s.value = unseen ? written_unseen(value, base) : value;
  } else {
    if (!memory || elsewhere) {
      base = stored_value(s.apart ? lathe::detach(base) : base, s.device);
      memory = memory_of(base);
    }
    Node view = written_view(impl.view, base, op);
    if (value.dtype() != view.dtype()) value = lathe::bitcast(value, view.dtype());
    value = broadcast_to(value, view.shape(), op);
    if (unseen) value = written_unseen(value, view);
    Node store = intern(Op::Store, dtypes::Void, {view, value});
    Node next = after(memory, std::span(&store, 1));
    s.value = over_memory(base, memory, next);
    s.writer = std::this_thread::get_id();
  }
  s.tracked = origin.tracked || (s.tracked && (unseen || !whole));
  s.unsaid = origin.unsaid || (s.unsaid && (unseen || !whole));
  ++s.version;
  if (impl.leaf) give_identity(s);
}

Tensor& Tensor::assign(const Operand& operand) {
  Scope scope;
  Node mine = node_of(*this);
  Tensor value = operand_tensor(operand, *this, dtype());
  if (is_in_file(*this)) {
    // A whole file is written from anywhere: by a copy, because it computes nothing.
    if (!impl_->view && value.device() != device())
      return replace(value.cast(dtype()).expand(shape()).to(device()));
    store_into_file(*this, value.cast(dtype()), "assign");
    return *this;
  }
  // What is assigned to stays where it is.
  if (common_device("assign", *this, value) != device())
    throw UserError("assign", fmt::format("tensors are on different devices: {} and {}", describe(*this),
                                          describe(value)))
        .help(fmt::format("move it: to(\"{}\")", device()));
  value = value.cast(dtype());
  Node v = broadcast_to(node_of(value), mine.shape(), "assign");
  if (v == mine) return *this;
  store_into(*this, v, origin_of(value), "assign");
  return *this;
}

Tensor& Tensor::replace(const Tensor& other, bool allow_shape_mismatch) {
  Scope scope;
  Node a = node_of(*this), b = node_of(other);
  if (!allow_shape_mismatch && a.shape_node() != b.shape_node())
    throw UserError("replace", fmt::format("this is {}, the other {}", describe(*this), describe(other)))
        .help("shapes must be equal, unless allow_shape_mismatch is given");
  if (impl_->leaf && !b.dtype().is_float())
    throw UserError("replace", fmt::format("this requires a gradient, and the other is {}", describe(other)))
        .help("cast the other to a float dtype, or call requires_grad_(false) first");
  std::lock_guard guard(storage_mutex());
  impl_->storage = other.impl()->storage;
  impl_->view = other.impl()->view;
  impl_->detached = other.impl()->detached;
  impl_->tracked = other.impl()->tracked;
  impl_->unsaid = other.impl()->unsaid;
  impl_->weak = other.impl()->weak;
  impl_->node = b;
  impl_->node_version = impl_->storage->version;
  impl_->shape = other.impl()->shape;
  return *this;
}

Tensor& Tensor::requires_grad_(bool on) {
  if (impl_) impl_->apart &= !on;
  node_of(*this);
  if (on && !dtype().is_float())
    throw UserError("requires_grad_", fmt::format("{} has no gradients", dtype().name()))
        .help("cast to a float dtype");
  impl_->refused = !on;
  if (on && !impl_->leaf && is_tracked(*this)) return *this;  // the result of others, which it stays
  if (on) give_identity(*impl_->storage);
  if (on && !impl_->leaf) remember_leaf(impl_);
  impl_->leaf = on;
  return *this;
}
bool Tensor::requires_grad() const { return defined() && is_tracked(*this); }
bool Tensor::is_leaf() const { return defined() && (impl_->leaf || !is_tracked(*this)); }
std::optional<bool> Tensor::grad_wish() const {
  if (requires_grad()) return true;
  return defined() && impl_->refused ? std::optional(false) : std::nullopt;
}
std::optional<Tensor> Tensor::grad() const {
  if (impl_ && impl_->missed)
    throw UserError("grad",
                    fmt::format("{} was used by way of a tensor that was realized, and what requires no "
                                "gradient is data from then on: its gradient is not known",
                                describe(*this)))
        .help(
            "call requires_grad_() on it before it is used (an optimizer does), or detach() what is meant as "
            "data");
  if (!impl_ || !impl_->grad) return std::nullopt;
  impl_->grad->impl()->storage->unasked = false;
  return impl_->grad;
}
void* Tensor::front() const { return impl_->front; }
void Tensor::set_front(void* object) const { impl_->front = object; }
void Tensor::set_grad(std::optional<Tensor> grad) {
  if (grad && node_of(*grad).shape_node() != node_of(*this).shape_node())
    throw UserError("grad",
                    fmt::format("the gradient is {}, the tensor {}", describe(*grad), describe(*this)));
  impl_->grad = std::move(grad);
  impl_->missed = false;
}

}  // namespace lathe
