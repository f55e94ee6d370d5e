// Making tensors from nothing but sizes and numbers, and copies of a kind.
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "schedule/memory_view.h"
#include "tensor/impl.h"

namespace lathe {

namespace {

std::string device_for(const TensorOptions& options) {
  return options.device.empty() ? default_device() : canonical_device(options.device);
}

Tensor finish(Tensor t, const TensorOptions& options) {
  if (options.requires_grad) t.requires_grad_();
  return t;
}

Nodes checked_sizes(const Shape& shape, std::string_view op) {
  Nodes sizes = size_nodes(shape);
  for (Node s : sizes)
    if (s.hi() < 0)
      throw UserError(op, fmt::format("size {} of {} is negative", index_text(s), to_string(shape)));
  size_product(sizes);  // throws where the number of elements does not fit
  return sizes;
}

TensorOptions like(const Tensor& t, TensorOptions options) {
  if (!options.dtype) options.dtype = t.dtype();
  if (options.device.empty()) options.device = t.device();
  return options;
}

}  // namespace

Tensor Tensor::full(const Shape& shape, Number value, const TensorOptions& options) {
  Scope scope;
  Nodes sizes = checked_sizes(shape, "full");
  std::string device = device_for(options);
  Tensor scalar = make_tensor(zero_of(dtypes::Bool), device);
  Node c = node_of(constant(value, options.dtype ? *options.dtype : value.dtype(), scalar));
  return finish(make_tensor(expand_to(c, sizes), device), options);
}

Tensor::Tensor(Number value, const TensorOptions& options) : Tensor(full({}, value, options)) {
  impl_->weak = !options.dtype;
}
Tensor Tensor::zeros(const Shape& shape, const TensorOptions& options) {
  TensorOptions o = options;
  if (!o.dtype) o.dtype = dtypes::default_float();
  return full(shape, 0, o);
}
Tensor Tensor::ones(const Shape& shape, const TensorOptions& options) {
  TensorOptions o = options;
  if (!o.dtype) o.dtype = dtypes::default_float();
  return full(shape, 1, o);
}

Tensor Tensor::empty(const Shape& shape, const TensorOptions& options) {
  Scope scope;
  Nodes sizes = checked_sizes(shape, "empty");
  DataType dtype = options.dtype ? *options.dtype : dtypes::default_float();
  std::string device = device_for(options);
  Node memory = new_buffer(ir_dtype(dtype), stored_size(sizes), device);
  return finish(make_tensor(view_of(memory, sizes), device), options);
}

Tensor iota_along(const Size& n, std::int64_t axis, std::int64_t rank, DataType dtype,
                  const std::string& device) {
  Tensor line = Tensor::arange(n, {.dtype = dtype, .device = device});
  Shape shape(static_cast<std::size_t>(rank), Size(1));
  shape[static_cast<std::size_t>(axis)] = n;
  return line.reshape(shape);
}

Tensor Tensor::arange_to(const Size& stop, const TensorOptions& options) {
  Scope scope;
  DataType dtype = options.dtype                                            ? *options.dtype
                   : stop.max() > ir_dtype(dtypes::default_int()).max_int() ? dtypes::int64
                                                                            : dtypes::default_int();
  if (!stop.is_symbolic() && stop.value() <= 0)
    return Tensor::full({0}, 0, {.dtype = dtype, .device = options.device});
  // Counted in the dtype itself where it is an integer; floats are made from integers that hold every number.
  DataType wide = stop.max() > ir_dtype(dtypes::int32).max_int() ? dtypes::int64 : dtypes::int32;
  Node index = lathe::arange(ir_dtype(dtype.is_int() ? dtype : wide), size_node(stop));
  return finish(make_tensor(lathe::cast(index, ir_dtype(dtype)), device_for(options)), options);
}

Tensor Tensor::arange(Number stop, const TensorOptions& options) { return arange(0, stop, 1, options); }

namespace {

__extension__ using Wide = __int128;  // differences of 64-bit numbers

// How many steps there are from start until stop is reached.
std::int64_t whole_steps(std::int64_t start, std::int64_t stop, std::int64_t step) {
  const Wide way = Wide{stop} - start, size = step > 0 ? Wide{step} : -Wide{step};
  const Wide distance = step > 0 ? way : -way;
  if (distance <= 0) return 0;
  const Wide steps = (distance + size - 1) / size;
  if (steps > std::numeric_limits<std::int64_t>::max())
    throw UserError("arange", fmt::format("the numbers from {} to {} are too many to count", start, stop));
  return static_cast<std::int64_t>(steps);
}

}  // namespace

Tensor Tensor::arange(Number start, Number stop, Number step, const TensorOptions& options) {
  Scope scope;
  if (step.to_double() == 0) throw UserError("arange", "the step is 0");
  bool floats = start.kind() == Number::Kind::Float || stop.kind() == Number::Kind::Float ||
                step.kind() == Number::Kind::Float;
  const std::int64_t n = floats
                             ? static_cast<std::int64_t>(std::max(
                                   std::ceil((stop.to_double() - start.to_double()) / step.to_double()), 0.0))
                             : whole_steps(start.to_int(), stop.to_int(), step.to_int());
  auto holds_all = [&](DataType d) {
    const Wide first = start.to_int(), last = first + Wide{n - 1} * step.to_int();
    return floats || n == 0 ||
           (std::min(first, last) >= ir_dtype(d).min_int() && std::max(first, last) <= ir_dtype(d).max_int());
  };
  const DataType usual = dtypes::default_int();
  const DataType dtype = options.dtype ? *options.dtype
                         : floats      ? dtypes::default_float()
                         : start.dtype() == usual && stop.dtype() == usual && holds_all(usual)
                             ? usual
                             : dtypes::int64;
  if (dtype.is_int() && dtype != dtypes::uint64 && !holds_all(dtype))
    throw UserError("arange", fmt::format("the numbers from {} on, {} of them, do not fit {}", start.to_int(),
                                          n, dtype.name()))
        .help("choose a wider dtype");
  Tensor i = arange(Size(n), {.dtype = dtype, .device = options.device});
  if (step.to_double() != 1) i = i * constant(step, dtype, i);
  if (start.to_double() != 0) i = i + constant(start, dtype, i);
  return finish(i, options);
}

Tensor Tensor::linspace(Number start, Number stop, std::int64_t steps, const TensorOptions& options) {
  Scope scope;
  if (steps < 0) throw UserError("linspace", fmt::format("{} steps", steps));
  DataType dtype = options.dtype ? *options.dtype : dtypes::default_float();
  if (dtype.is_bool()) throw TypeError("linspace", "bool has no numbers between two others");
  DataType wide = sum_accumulator(least_upper_float(dtype));
  Tensor i = arange(Size(steps), {.dtype = wide, .device = options.device});
  double gap = steps > 1 ? (stop.to_double() - start.to_double()) / static_cast<double>(steps - 1) : 0;
  // Each half from its own end, so that the last number is `stop`.
  const Tensor rising = i * gap + start.to_double(),
               falling = (i - static_cast<double>(steps - 1)) * gap + stop.to_double();
  return finish((i < static_cast<double>(steps) / 2).where(rising, falling).cast(dtype), options);
}

Tensor Tensor::eye(std::int64_t n, std::optional<std::int64_t> m, const TensorOptions& options) {
  Scope scope;
  std::int64_t columns = m.value_or(n);
  if (n < 0 || columns < 0) throw UserError("eye", fmt::format("sizes ({}, {}) are negative", n, columns));
  std::string device = device_for(options);
  Tensor rows = iota_along(n, 0, 2, dtypes::int32, device),
         cols = iota_along(columns, 1, 2, dtypes::int32, device);
  return finish((rows == cols).cast(options.dtype ? *options.dtype : dtypes::default_float()), options);
}

std::vector<Tensor> Tensor::meshgrid(const std::vector<Tensor>& axes, std::string_view indexing) {
  Scope scope;
  if (indexing != "ij" && indexing != "xy")
    throw UserError("meshgrid", fmt::format("indexing \"{}\" is unknown", indexing)).help("\"ij\" or \"xy\"");
  const std::size_t rank = axes.size();
  auto place = [&](std::size_t i) { return indexing == "xy" && i < 2 && rank > 1 ? 1 - i : i; };
  Shape full_shape(rank, Size(1));
  for (std::size_t i = 0; i < rank; ++i) full_shape[place(i)] = axes[i].numel();
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < rank; ++i) {
    Shape line(rank, Size(1));
    line[place(i)] = axes[i].numel();
    out.push_back(axes[i].reshape(line).expand(full_shape));
  }
  return out;
}

Tensor Tensor::const_like(Number value) const { return full_like(value); }
Tensor Tensor::full_like(Number value, const TensorOptions& o) const {
  return full(shape(), value, like(*this, o));
}
Tensor Tensor::zeros_like(const TensorOptions& o) const { return full(shape(), 0, like(*this, o)); }
Tensor Tensor::ones_like(const TensorOptions& o) const { return full(shape(), 1, like(*this, o)); }
Tensor Tensor::empty_like(const TensorOptions& o) const { return empty(shape(), like(*this, o)); }
Tensor Tensor::rand_like(const TensorOptions& o) const { return rand(shape(), like(*this, o)); }
Tensor Tensor::randn_like(const TensorOptions& o) const { return randn(shape(), like(*this, o)); }

}  // namespace lathe
