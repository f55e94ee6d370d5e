// Host data in and out, properties, dtypes and devices.
#include <cstring>

#include <fmt/format.h>

#include "engine/engine.h"
#include "lathe/dev/handles.h"
#include "runtime/storage.h"
#include "schedule/memory_view.h"
#include "tensor/elements.h"
#include "tensor/impl.h"
#include "tensor/realize.h"

namespace lathe {

Index::Index(const Tensor& t) : kind_(Kind::Tensor), tensor_(std::make_shared<const Tensor>(t)) {}

const Shape& Tensor::shape() const {
  Node n = node_of(*this);
  std::lock_guard guard(storage_mutex());
  if (!impl_->shape) impl_->shape = shape_of_nodes(n.shape());
  return *impl_->shape;
}
Size Tensor::size(std::int64_t axis) const {
  if (ndim() == 0) throw UserError("size", "a scalar has no axes");
  return shape()[static_cast<std::size_t>(resolve_axis(axis, ndim(), "size"))];
}
DataType Tensor::dtype() const { return data_type(node_of(*this).dtype()); }
const std::string& Tensor::device() const {
  node_of(*this);
  return impl_->storage->device;
}
std::int64_t Tensor::ndim() const { return static_cast<std::int64_t>(node_of(*this).rank()); }
Size Tensor::numel() const {
  Scope scope;
  return size_of(size_product(node_of(*this).shape()));
}
std::int64_t Tensor::element_size() const { return dtype().itemsize(); }
std::int64_t Tensor::nbytes() const { return numel_max(node_of(*this)) * element_size(); }
bool Tensor::is_floating_point() const { return dtype().is_float(); }
std::string Tensor::str() const { return defined() ? "Tensor " + describe(*this) : "Tensor (empty)"; }

// ---- in

namespace {

std::string device_for(const TensorOptions& options) {
  return options.device.empty() ? default_device() : canonical_device(options.device);
}

std::int64_t plain_count(const Shape& shape, std::string_view op) {
  std::int64_t n = 1;
  for (const Size& s : shape) {
    if (s.is_symbolic()) throw UserError(op, fmt::format("shape {} is symbolic", to_string(shape)));
    n *= s.value();
  }
  return n;
}

void collect(const NestedList& list, std::size_t depth, std::vector<std::int64_t>& sizes,
             std::vector<Number>& numbers) {
  if (!list.is_list()) {
    if (depth != sizes.size()) throw UserError("tensor", "a list is nested unevenly");
    numbers.push_back(list.number());
    return;
  }
  const auto n = static_cast<std::int64_t>(list.items().size());
  if (depth == sizes.size() && numbers.empty()) sizes.push_back(n);
  if (depth >= sizes.size() || sizes[depth] != n)
    throw UserError("tensor", fmt::format("a list has {} elements where {} are expected", n,
                                          depth < sizes.size() ? sizes[depth] : 0))
        .help("all lists at the same depth must have the same length");
  for (const NestedList& item : list.items()) collect(item, depth + 1, sizes, numbers);
}

Tensor on_device(DataType dtype, std::int64_t count, const void* data, const Shape& shape,
                 std::string_view device) {
  NodeRef buffer = engine::buffer_from_host(ir_dtype(dtype), count, device, data);
  Nodes sizes = size_nodes(shape);
  return make_tensor(reshape_to(buffer, sizes), device);
}

}  // namespace

Tensor Tensor::from_array(const void* values, std::size_t count, DataType dtype, const Shape& shape,
                          const TensorOptions& options) {
  Scope scope;
  std::int64_t wanted = plain_count(shape, "tensor");
  if (wanted != static_cast<std::int64_t>(count))
    throw UserError("tensor", fmt::format("{} values do not fill shape {}", count, to_string(shape)));
  DataType to = options.dtype ? *options.dtype : dtype == dtypes::float64 ? dtypes::default_float() : dtype;
  Tensor t;
  if (to == dtype) {
    t = on_device(dtype, wanted, values, shape, device_for(options));
  } else {  // converted here: a list of doubles should not need a device with doubles
    std::vector<std::byte> converted(count * static_cast<std::size_t>(to.itemsize()));
    convert_elements(values, ir_dtype(dtype), converted.data(), ir_dtype(to), count);
    t = on_device(to, wanted, converted.data(), shape, device_for(options));
  }
  if (options.requires_grad) t.requires_grad_();
  return t;
}

Tensor::Tensor(std::initializer_list<NestedList> values, const TensorOptions& options) {
  std::vector<std::int64_t> sizes;
  std::vector<Number> numbers;
  collect(NestedList(values), 0, sizes, numbers);
  bool floats = false, bools = !numbers.empty();
  for (Number n : numbers) {
    floats |= n.kind() == Number::Kind::Float;
    bools &= n.kind() == Number::Kind::Bool;
  }
  TensorOptions o = options;
  if (!o.dtype)
    o.dtype = floats || numbers.empty() ? dtypes::default_float()
              : bools                   ? dtypes::bool_
                                        : dtypes::default_int();
  Shape shape(sizes.begin(), sizes.end());
  if (floats) {
    std::vector<double> plain;
    for (Number n : numbers) plain.push_back(n.to_double());
    *this = from_array(plain.data(), plain.size(), dtypes::float64, shape, o);
  } else {
    std::vector<std::int64_t> plain;
    for (Number n : numbers) plain.push_back(n.to_int());
    *this = from_array(plain.data(), plain.size(), dtypes::int64, shape, o);
  }
}

Tensor Tensor::from_bytes(const void* data, std::size_t bytes, const Shape& shape, DataType dtype,
                          std::string_view device) {
  Scope scope;
  std::int64_t count = plain_count(shape, "from_bytes");
  if (count * dtype.itemsize() != static_cast<std::int64_t>(bytes))
    throw UserError("from_bytes",
                    fmt::format("{} bytes do not fill {} {}", bytes, to_string(shape), dtype.name()));
  return on_device(dtype, count, data, shape, device.empty() ? default_device() : canonical_device(device));
}

Tensor Tensor::from_blob(void* data, const Shape& shape, const TensorOptions& options,
                         std::function<void()> release) {
  Scope scope;
  DataType dtype = options.dtype ? *options.dtype : dtypes::default_float();
  std::int64_t count = plain_count(shape, "from_blob");
  auto* held = new std::function<void()>(std::move(release));
  auto drop = [](void* context) {
    auto* f = static_cast<std::function<void()>*>(context);
    if (*f) (*f)();
    delete f;
  };
  NodeRef buffer = engine::buffer_import(ir_dtype(dtype), count, data, drop, held);
  Nodes sizes = size_nodes(shape);
  Tensor t = make_tensor(reshape_to(buffer, sizes), buffer_device(buffer));
  if (!options.device.empty()) t = t.to(options.device);
  if (options.requires_grad) t.requires_grad_();
  return t;
}

Tensor::Tensor(const std::filesystem::path& file, const TensorOptions& options) {
  Scope scope;
  std::error_code error;
  auto bytes = std::filesystem::file_size(file, error);
  if (error) {
    const std::string text = fmt::format("{} cannot be opened: {}", file.string(), error.message());
    if (error == std::errc::no_such_file_or_directory) throw MissingFile("tensor", text);
    throw UserError("tensor", text);
  }
  DataType dtype = options.dtype ? *options.dtype : dtypes::uint8;
  if (bytes % static_cast<std::uintmax_t>(dtype.itemsize()) != 0)
    throw UserError("tensor", fmt::format("{} has {} bytes, which is not a multiple of the size of {}",
                                          file.string(), bytes, dtype.name()));
  std::string device = "DISK:" + std::filesystem::absolute(file).string();
  auto count = static_cast<std::int64_t>(bytes) / dtype.itemsize();
  const NodeRef buffer = new_buffer(ir_dtype(dtype), count, device);
  place_of(buffer);  // this file, whatever takes its name later
  *this = make_tensor(buffer, device);
  if (!options.device.empty()) *this = to(options.device);
}

// ---- out

namespace {

struct HostView {
  Node buffer;    // or null
  Node constant;  // or null
  Node view;      // movement ops over the buffer
};

// The value read from where it was computed to: the first computed node on the way down becomes its buffer.
HostView at_host(Node value) {
  std::vector<Node> chain;
  Node n = value;
  Node memory;
  for (;; n = n.arg(0)) {
    memory = n.is(Op::Buffer) ? n : realized(n);
    if (memory || n.is_const()) break;
    if (!(is_movement(n.op()) || n.is(Op::Detach) || n.is(Op::GradFence)) || n.is(Op::Pad)) return {};
    chain.push_back(n);
  }
  if (!memory) return {Node(), n, value};
  Node view = n == memory ? memory : view_of(memory, n.shape());
  for (std::size_t i = chain.size(); i-- > 0;) {
    if (!is_movement(chain[i].op())) continue;
    Nodes args(chain[i].args().begin(), chain[i].args().end());
    args[0] = view;
    view = chain[i].with_args(args);
  }
  return {memory, Node(), view};
}

bool in_order(Node view) {
  while (view.is(Op::Reshape)) view = view.arg(0);
  return view.is(Op::Buffer);
}

std::int64_t bound(Node size) { return size_of(size).bound_value(); }

// Position in the buffer of the element at `index` of a view, which becomes scratch.
std::int64_t position(Node view, std::vector<std::int64_t>& index) {
  std::vector<std::int64_t> next;
  for (; !view.is(Op::Buffer); view = view.arg(0), index.swap(next)) {
    std::span<const Node> from = view.arg(0).shape();
    next.assign(from.size(), 0);
    if (view.is(Op::Reshape)) {
      std::int64_t flat = 0;
      for (std::size_t i = 0; i < index.size(); ++i) flat = flat * bound(view.shape()[i]) + index[i];
      for (std::size_t i = from.size(); i-- > 0; flat /= bound(from[i])) next[i] = flat % bound(from[i]);
    } else if (view.is(Op::Expand)) {
      for (std::size_t i = 0; i < from.size(); ++i) next[i] = is_one(from[i]) ? 0 : index[i];
    } else if (view.is(Op::Permute)) {
      for (std::size_t i = 0; i < index.size(); ++i)
        next[static_cast<std::size_t>(view.ints()[i])] = index[i];
    } else if (view.is(Op::Shrink)) {
      for (std::size_t i = 0; i < index.size(); ++i) next[i] = index[i] + bound(view.arg(1 + i));
    } else if (view.is(Op::Flip)) {
      next = index;
      for (std::int64_t a : view.ints()) {
        auto i = static_cast<std::size_t>(a);
        next[i] = bound(from[i]) - 1 - index[i];
      }
    } else {
      check_internal(view.is(Op::Skew), "copy_out", "no view");
      next = index;
      auto n = static_cast<std::size_t>(view.ints()[0]), k = static_cast<std::size_t>(view.ints()[1]);
      next[n] = index[n] * view.ints()[2] + index[k] * view.ints()[3];
    }
  }
  return index[0];
}

// Reads a view that is small, or whose sizes hold variables: the whole buffer comes over and the view is
// taken here, so that no kernel is made for it.
constexpr std::size_t kSmallView = 4096;
constexpr std::int64_t kSmallBuffer = 1 << 20;
constexpr std::string_view kHost = "CPU";
void read_on_host(const HostView& at, void* to, std::size_t count, std::size_t width) {
  std::vector<std::byte> all(static_cast<std::size_t>(buffer_size(at.buffer)) * width);
  engine::buffer_to_host(at.buffer, all.data(), all.size());
  std::vector<std::int64_t> sizes, index;
  for (Node s : at.view.shape()) sizes.push_back(bound(s));
  for (std::size_t e = 0; e < count; ++e) {
    index.assign(sizes.size(), 0);
    auto rest = static_cast<std::int64_t>(e);
    for (std::size_t i = sizes.size(); i-- > 0; rest /= sizes[i]) index[i] = rest % sizes[i];
    auto from = static_cast<std::size_t>(position(at.view, index));
    std::memcpy(static_cast<std::byte*>(to) + e * width, all.data() + from * width, width);
  }
}

}  // namespace

void Tensor::copy_out(void* to, std::size_t bytes) const {
  Scope scope;
  const auto count = static_cast<std::size_t>(numel().bound_value());
  const auto width = static_cast<std::size_t>(element_size());
  if (bytes != count * width)
    throw UserError("copy_out", fmt::format("{} bytes were requested of {}, which has {}", bytes,
                                            describe(*this), count * width));
  if (count == 0) return;
  Tensor t = *this;
  t.realize();
  HostView at = at_host(node_of(t));
  const bool symbolic = numel().is_symbolic();
  const bool small = at.buffer && count <= kSmallView && buffer_size(at.buffer) <= kSmallBuffer;
  const bool readable = at.buffer && (symbolic || small || in_order(at.view));
  if (!at.constant && !readable) {
    // In order, and where the host can read it: a device need not be able to compute.
    NoGradScope no_grad;
    Node n = node_of(t);
    t = make_tensor(lathe::contiguous(device() == kHost ? n : copy_to(n, kHost)), kHost);
    t.realize();
    at = at_host(node_of(t));
  }
  if (at.constant) return fill_elements(to, ir_dtype(dtype()), count, element_of(at.constant));
  check_internal(static_cast<bool>(at.buffer), "copy_out", "the engine gave no buffer");
  if (!in_order(at.view)) return read_on_host(at, to, count, width);
  engine::buffer_to_host(at.buffer, to, bytes);
}

void* Tensor::host_data() const {
  Scope scope;
  Tensor t = *this;
  t.realize();
  HostView at = at_host(node_of(t));
  return at.buffer && in_order(at.view) ? engine::host_address(at.buffer) : nullptr;
}

void Tensor::copy_out_as(DataType as, void* to, std::size_t bytes) const {
  if (as == dtype()) return copy_out(to, bytes);
  const auto count = static_cast<std::size_t>(numel().bound_value());
  std::vector<std::byte> own(count * static_cast<std::size_t>(element_size()));
  copy_out(own.data(), own.size());
  convert_elements(own.data(), ir_dtype(dtype()), to, ir_dtype(as), count);
}

std::vector<double> Tensor::tolist() const { return data<double>(); }

std::vector<std::byte> Tensor::bytes() const {
  std::vector<std::byte> out(static_cast<std::size_t>(numel().bound_value()) *
                             static_cast<std::size_t>(element_size()));
  copy_out(out.data(), out.size());
  return out;
}

// ---- dtypes and devices

Tensor dev::other_handle(const Tensor& tensor) {
  if (is_tracked(tensor)) return tensor.detach();
  Tensor other = another_handle(tensor);
  other.impl()->weak = tensor.impl()->weak;
  return other;
}

Tensor Tensor::cast(DataType to) const {
  Scope scope;
  if (to == dtype()) return impl_->weak ? another_handle(*this) : *this;
  Node x = node_of(*this);
  bool differentiable = dtype().is_float() && to.is_float();
  return make_tensor(lathe::cast(x, ir_dtype(to)), device(), differentiable ? origin_of(*this) : Origin{});
}

Tensor Tensor::bitcast(DataType to) const {
  Scope scope;
  if (to == dtype()) return *this;
  Node x = node_of(*this);
  int from_bytes = dtype().itemsize(), to_bytes = to.itemsize();
  if (from_bytes != to_bytes) {
    if (x.rank() == 0)
      throw UserError("bitcast",
                      fmt::format("a scalar {} has not the width of {}", dtype().name(), to.name()));
    Node last = x.shape().back() * index_const(from_bytes);
    if (last.is_const() && last.const_int() % to_bytes != 0)
      throw UserError(
          "bitcast",
          fmt::format("the last axis of {} holds {} bytes, which is not a multiple of the size of {}",
                      to_string(shape()), last.const_int(), to.name()));
  }
  Tensor out = make_view(*this, lathe::bitcast(x, ir_dtype(to)));
  out.impl()->detached = true;
  return out;
}

Tensor Tensor::detach() const {
  Scope scope;
  return make_view(*this, lathe::detach(node_of(*this)));
}

namespace {

// Whether a value is made of constants alone. Looks at a few nodes only, so that it costs the same in every
// graph: what is larger counts as computed.
bool is_constant_expression(Node value) {
  constexpr std::size_t kMostNodes = 64;
  std::vector<Node> pending{value};
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const Node n = pending[i];
    if (i == kMostNodes || n.is(Op::Buffer) || n.is(Op::After)) return false;
    pending.insert(pending.end(), n.args().begin(), n.args().end());
  }
  return true;
}

}  // namespace

Tensor Tensor::contiguous(const std::optional<std::vector<Opt>>& options) const {
  Scope scope;
  Node n = node_of(*this);
  if (options) return make_like(*this, lathe::contiguous(n, "[" + lathe::to_string(*options) + "]"));
  if (n.is(Op::Contiguous) || (impl_->view == nullptr && at_host(n).buffer && in_order(at_host(n).view)))
    return *this;
  // Equal constants are one node; what has memory is told from others by it.
  if (n.dtype().is_float() && is_constant_expression(n) && size_product(n.shape()).is_const()) return clone();
  return make_like(*this, lathe::contiguous(n));
}

Tensor Tensor::contiguous_backward() const {
  Scope scope;
  Node n = node_of(*this);
  return make_view(*this, intern(Op::GradFence, n.dtype(), {n}));
}

Tensor Tensor::clone() const {
  Scope scope;
  return make_like(*this, stored_value(kept_value(node_of(*this)), device()));
}

Tensor Tensor::to(std::string_view name) const {
  Scope scope;
  std::string target = canonical_device(name);
  if (target == device()) return *this;
  // A constant would be made where it is wanted, but a file makes nothing.
  const bool made_there = target.starts_with("DISK:") && device_of(node_of(*this)).empty();
  const Tensor from = made_there ? clone() : *this;
  return make_tensor(copy_to(node_of(from), target), target, origin_of(*this));
}

Tensor& Tensor::to_(std::string_view name) {
  Tensor moved = to(name);
  if (moved.impl() == impl_) return *this;
  if (impl_->grad) impl_->grad = impl_->grad->to(name);
  return replace(moved);
}

Tensor Tensor::shard(const std::vector<std::string>& devices, std::optional<std::int64_t>) const {
  if (devices.size() == 1) return to(devices[0]);
  throw NotSupported("shard", fmt::format("a tensor over {} devices is not supported yet", devices.size()))
      .help("to() moves a whole tensor to another device");
}
Tensor& Tensor::shard_(const std::vector<std::string>& devices, std::optional<std::int64_t> axis) {
  return replace(shard(devices, axis));
}
Tensor Tensor::shard_like(const Tensor& other) const { return to(other.device()); }

}  // namespace lathe
