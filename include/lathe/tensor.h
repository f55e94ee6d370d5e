// The lazy tensor. A Tensor is a handle to a storage and a view of it. Operations only build a graph;
// realize() and reading values (item, data, tolist) compute. Operations have the names and meanings of numpy
// and PyTorch. docs/tensor.md covers aliasing, dtypes, gradients and random numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/device.h"
#include "lathe/dtypes.h"
#include "lathe/error.h"
#include "lathe/index.h"
#include "lathe/options.h"
#include "lathe/variable.h"

namespace lathe {

class Tensor;
struct TensorImpl;

// Options of a new tensor; unset ones take the defaults.
struct TensorOptions {
  std::optional<DataType> dtype = std::nullopt;
  std::string device = "";
  bool requires_grad = false;
};

// A nested list of numbers, as in Tensor({{1, 2}, {3, 4}}).
class NestedList {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  NestedList(T v) : number_(v) {}                                                         // NOLINT
  NestedList(std::initializer_list<NestedList> items) : items_(items), is_list_(true) {}  // NOLINT
  bool is_list() const { return is_list_; }
  Number number() const { return number_; }
  const std::vector<NestedList>& items() const { return items_; }

 private:
  Number number_ = 0;
  std::vector<NestedList> items_;
  bool is_list_ = false;
};

// An operand of an elementwise operation: a tensor (borrowed), a literal or a symbolic size.
class Operand {
 public:
  Operand(const Tensor& t) : tensor_(&t) {}  // NOLINT
  template <class T>
    requires std::is_arithmetic_v<T>
  Operand(T v) : number_(v) {}                                     // NOLINT
  Operand(Number v) : number_(v) {}                                // NOLINT
  Operand(const Size& s) : size_(s), is_size_(true) {}             // NOLINT
  Operand(const Variable& v) : size_(v.size()), is_size_(true) {}  // NOLINT
  const Tensor* tensor() const { return tensor_; }
  bool is_size() const { return is_size_; }
  const Size& size() const { return size_; }
  Number number() const { return number_; }

 private:
  const Tensor* tensor_ = nullptr;
  Number number_ = 0;
  Size size_;
  bool is_size_ = false;
};

struct ConvOptions {
  std::int64_t groups = 1;
  Ints stride = 1, dilation = 1;
  Ints padding = 0;  // one number, one per axis, or low/high pairs from the last axis to the first
};
struct ConvTransposeOptions {
  std::int64_t groups = 1;
  Ints stride = 1, dilation = 1, padding = 0, output_padding = 0;
};
struct PoolOptions {
  Ints stride = {};  // empty: the kernel size
  Ints dilation = 1, padding = 0;
  bool ceil_mode = false, count_include_pad = true;
};
enum class Reduction : std::uint8_t { None, Mean, Sum };
struct CrossEntropyOptions {
  Reduction reduction = Reduction::Mean;
  double label_smoothing = 0;
  std::int64_t ignore_index = -100;
};
struct AttentionOptions {
  const Tensor* mask = nullptr;  // bool (true: attend) or added to the scores
  double dropout = 0;
  bool causal = false, gqa = false;
  std::optional<double> scale = std::nullopt;
};

// A kernel, or a copy between devices, of a computation.
struct ScheduledKernel {
  std::string name, device;
  std::string options;  // "UPCAST(0, 4) THREAD(0, 2)"
  std::string origin;   // the tensor ops it came from
  std::string text;     // the kernel as scheduled (docs/ir.md); empty for a copy
  double flops = 0, bytes = 0;
  bool is_copy() const { return text.empty(); }
};

class Tensor {
 public:
  // ---- creation
  Tensor();  // undefined: only assignment and defined() work
  explicit Tensor(Number value, const TensorOptions& options = {});
  explicit Tensor(std::initializer_list<NestedList> values, const TensorOptions& options = {});
  template <class E>
    requires std::is_arithmetic_v<E>
  explicit Tensor(const std::vector<E>& values, const TensorOptions& options = {})
      : Tensor(from_values(values, {Size(values.size())}, options)) {}
  template <class E>
    requires std::is_arithmetic_v<E>
  Tensor(const std::vector<E>& values, const Shape& shape, const TensorOptions& options = {})
      : Tensor(from_values(values, shape, options)) {}
  // A file's bytes as a uint8 tensor on the DISK device; nothing is read until it is used.
  explicit Tensor(const std::filesystem::path& file, const TensorOptions& options = {});

  static Tensor from_bytes(const void* data, std::size_t bytes, const Shape& shape, DataType dtype,
                           std::string_view device = "");
  // Uses the caller's memory without a copy; calls `release` when the last use is gone.
  static Tensor from_blob(void* data, const Shape& shape, const TensorOptions& options = {},
                          std::function<void()> release = {});

  static Tensor empty(const Shape& shape, const TensorOptions& options = {});
  static Tensor full(const Shape& shape, Number value, const TensorOptions& options = {});
  static Tensor zeros(const Shape& shape, const TensorOptions& options = {});
  static Tensor ones(const Shape& shape, const TensorOptions& options = {});
  static Tensor arange(Number stop, const TensorOptions& options = {});
  static Tensor arange(Number start, Number stop, Number step = 1, const TensorOptions& options = {});
  // For a symbolic stop; plain numbers use the overloads above.
  template <class S>
    requires std::is_same_v<S, Size>
  static Tensor arange(const S& stop, const TensorOptions& options) {
    return arange_to(stop, options);
  }
  static Tensor linspace(Number start, Number stop, std::int64_t steps, const TensorOptions& options = {});
  static Tensor eye(std::int64_t n, std::optional<std::int64_t> m = std::nullopt,
                    const TensorOptions& options = {});
  static std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, std::string_view indexing = "ij");
  Tensor const_like(Number value) const;
  Tensor full_like(Number value, const TensorOptions& options = {}) const;
  Tensor zeros_like(const TensorOptions& options = {}) const;
  Tensor ones_like(const TensorOptions& options = {}) const;
  Tensor empty_like(const TensorOptions& options = {}) const;
  Tensor rand_like(const TensorOptions& options = {}) const;
  Tensor randn_like(const TensorOptions& options = {}) const;

  // ---- random numbers: counter-based, the same on every device (docs/tensor.md)
  static void manual_seed(std::uint64_t seed);
  static Tensor random_bits(std::int64_t count, const TensorOptions& options = {});  // uint32
  static Tensor rand(const Shape& shape, const TensorOptions& options = {});         // [0, 1)
  static Tensor randn(const Shape& shape, const TensorOptions& options = {});
  static Tensor randint(const Shape& shape, std::int64_t low, std::int64_t high,
                        const TensorOptions& options = {});
  static Tensor normal(const Shape& shape, double mean = 0, double std = 1,
                       const TensorOptions& options = {});
  static Tensor uniform(const Shape& shape, double low = 0, double high = 1,
                        const TensorOptions& options = {});
  static Tensor scaled_uniform(const Shape& shape, const TensorOptions& options = {});
  static Tensor glorot_uniform(const Shape& shape, const TensorOptions& options = {});
  static Tensor kaiming_uniform(const Shape& shape, double a = 0.01, const TensorOptions& options = {});
  static Tensor kaiming_normal(const Shape& shape, double a = 0.01, const TensorOptions& options = {});
  static Tensor randperm(std::int64_t n, const TensorOptions& options = {});
  Tensor multinomial(std::int64_t samples = 1, bool replacement = false) const;

  // ---- properties
  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  Size size(std::int64_t axis) const;
  DataType dtype() const;
  const std::string& device() const;
  std::int64_t ndim() const;
  Size numel() const;
  std::int64_t element_size() const;
  std::int64_t nbytes() const;  // symbolic sizes count with their maximum
  bool is_floating_point() const;
  bool requires_grad() const;
  Tensor& requires_grad_(bool on = true);
  // The last argument of requires_grad_; nothing if it was never called.
  std::optional<bool> grad_wish() const;
  bool is_leaf() const;
  std::optional<Tensor> grad() const;
  void set_grad(std::optional<Tensor> grad);
  void zero_grad() { set_grad(std::nullopt); }
  std::string str() const;  // shape, dtype and device as text

  // Whether dropout and batch norm are in training mode; TrainingScope sets it.
  static bool training();

  // ---- data
  Tensor& realize();
  static void realize_all(std::span<Tensor* const> tensors);
  static void realize_all(std::span<const Tensor> tensors);
  bool is_realized() const;
  // Schedules and compiles what realize() would run, without running it; realize() then only launches it.
  Tensor& kernelize();
  // The kernels and copies that realize() would run, in order; runs nothing.
  std::vector<ScheduledKernel> schedule() const;
  static std::vector<ScheduledKernel> schedule_all(std::span<const Tensor> tensors);
  // The elements in row-major order, converted to E.
  template <class E>
  std::vector<E> data() const;
  std::vector<double> tolist() const;
  std::vector<std::byte> bytes() const;  // as stored, in row-major order
  void copy_out(void* to, std::size_t bytes) const;
  // Realizes, and returns the address of the elements in row-major order; null if the CPU cannot access them
  // or they are in another order (contiguous() reorders them). Valid as long as a handle to the storage
  // lives.
  void* host_data() const;
  template <class E = double>
  E item() const;
  // Replaces this handle by contiguous() with these options ("UPCAST(0, 4) UNROLL(0, 0)", docs/options.md).
  Tensor& set_options(std::string_view options);
  Tensor clone() const;
  Tensor& assign(const Operand& value);  // in place: visible through every alias
  // Makes this handle refer to the other's storage, which may have any dtype and device.
  Tensor& replace(const Tensor& other, bool allow_shape_mismatch = false);
  Tensor detach() const;
  // The value in memory of its own, in row-major order. With a list of options (possibly empty), the kernel
  // that stores it uses exactly these instead of the heuristic's; an option that does not fit the kernel
  // throws KernelOptError when it is compiled.
  Tensor contiguous(const std::optional<std::vector<Opt>>& options = std::nullopt) const;
  Tensor contiguous_backward() const;
  Tensor to(std::string_view device) const;
  Tensor& to_(std::string_view device);
  Tensor shard(const std::vector<std::string>& devices,
               std::optional<std::int64_t> axis = std::nullopt) const;
  Tensor& shard_(const std::vector<std::string>& devices, std::optional<std::int64_t> axis = std::nullopt);
  Tensor shard_like(const Tensor& other) const;

  // ---- gradients
  // Gradients of this scalar (or of sum(this * seed)) with respect to each target, as ordinary tensors that
  // can be differentiated again. A target that this does not depend on gets zeros.
  std::vector<Tensor> gradient(const std::vector<Tensor>& targets, const Tensor* seed = nullptr) const;
  // Adds to the .grad of every tensor that requires one, and of those in `also` that take part. A gradient in
  // `also` is dropped if memory it reads is overwritten before grad() is called; using it is then an error.
  void backward(const Tensor* seed = nullptr, std::span<const Tensor> also = {}) const;

  // ---- dtype
  Tensor cast(DataType dtype) const;
  Tensor bitcast(DataType dtype) const;
  Tensor to_float() const { return cast(dtypes::float32); }
  Tensor to_half() const { return cast(dtypes::float16); }
  Tensor to_bfloat16() const { return cast(dtypes::bfloat16); }
  Tensor to_double() const { return cast(dtypes::float64); }
  Tensor to_int() const { return cast(dtypes::int32); }
  Tensor to_long() const { return cast(dtypes::int64); }
  Tensor to_short() const { return cast(dtypes::int16); }
  Tensor to_bool() const { return cast(dtypes::bool_); }

  // ---- movement: views, unless noted
  Tensor view(const Shape& shape) const { return reshape(shape); }
  Tensor reshape(const Shape& shape) const;  // one size may be -1
  Tensor expand(const Shape& shape) const;   // -1 keeps a size
  Tensor permute(const Ints& order) const;
  Tensor transpose(std::int64_t a = 1, std::int64_t b = 0) const;
  Tensor T() const;  // axes reversed
  Tensor flip(const Ints& axes) const;
  Tensor shrink(const std::vector<std::pair<Size, Size>>& bounds) const;
  Tensor pad(const std::vector<std::pair<Size, Size>>& padding, Number value = 0) const;  // a new tensor
  // Padding in torch's order: low/high pairs, the last axis first; mode is constant, reflect, replicate or
  // circular.
  Tensor pad(const Ints& padding, std::string_view mode, Number value = 0) const;
  Tensor pad_to(const Shape& shape) const;
  Tensor shrink_to(const Shape& shape) const;
  Tensor squeeze(std::optional<std::int64_t> axis = std::nullopt) const;
  Tensor unsqueeze(std::int64_t axis) const;
  Tensor flatten(std::int64_t start = 0, std::int64_t end = -1) const;
  Tensor unflatten(std::int64_t axis, const Shape& sizes) const;
  Tensor rearrange(std::string_view formula,
                   const std::vector<std::pair<std::string, std::int64_t>>& sizes = {}) const;
  Tensor movedim(std::int64_t from, std::int64_t to) const;
  static Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis = 0);
  static Tensor cat(const std::vector<Tensor>& tensors, std::int64_t axis = 0);
  Tensor cat(const Tensor& other, std::int64_t axis = 0) const {
    return cat(std::vector<Tensor>{*this, other}, axis);
  }
  std::vector<Tensor> split(std::int64_t size, std::int64_t axis = 0) const;
  std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, std::int64_t axis = 0) const;
  std::vector<Tensor> chunk(std::int64_t parts, std::int64_t axis = 0) const;
  Tensor repeat(const Ints& times) const;
  Tensor repeat_interleave(std::int64_t times, std::optional<std::int64_t> axis = std::nullopt) const;
  Tensor roll(const Ints& shifts, const Ints& axes = {}) const;
  Tensor diag() const;
  Tensor diagonal(std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1) const;
  Tensor unfold(std::int64_t axis, std::int64_t size, std::int64_t step) const;
  Tensor triu(const Size& diagonal = 0) const;
  Tensor tril(const Size& diagonal = 0) const;

  // ---- indexing: x[i], x.getitem({i, Slice{0, 3}, kEllipsis, index_tensor}), and writing the same way
  Tensor operator[](const Index& index) const { return getitem({index}); }
  Tensor getitem(const std::vector<Index>& indices) const;
  Tensor& setitem(const std::vector<Index>& indices, const Operand& value);
  Tensor gather(std::int64_t axis, const Tensor& index) const;
  Tensor scatter(std::int64_t axis, const Tensor& index, const Operand& src,
                 std::string_view reduce = "") const;
  Tensor scatter_reduce(std::int64_t axis, const Tensor& index, const Tensor& src, std::string_view reduce,
                        bool include_self = true) const;
  Tensor masked_select(const Tensor& mask, std::optional<std::int64_t> size = std::nullopt,
                       Number fill = 0) const;
  Tensor nonzero(std::optional<std::int64_t> size = std::nullopt, Number fill = 0) const;
  Tensor one_hot(std::int64_t classes = -1) const;
  Tensor embedding(const Tensor& index) const;  // rows of this table
  std::pair<Tensor, Tensor> sort(std::int64_t axis = -1,
                                 bool descending = false) const;  // stable; values, indices
  Tensor argsort(std::int64_t axis = -1, bool descending = false) const;
  std::pair<Tensor, Tensor> topk(std::int64_t k, std::int64_t axis = -1, bool largest = true,
                                 bool sorted = true) const;

  // ---- reductions: no axes means all of them
  Tensor sum(const Ints& axes = {}, bool keepdim = false, std::optional<DataType> dtype = std::nullopt) const;
  Tensor prod(const Ints& axes = {}, bool keepdim = false,
              std::optional<DataType> dtype = std::nullopt) const;
  Tensor max(const Ints& axes = {}, bool keepdim = false) const;
  Tensor min(const Ints& axes = {}, bool keepdim = false) const;
  Tensor mean(const Ints& axes = {}, bool keepdim = false) const;
  Tensor var(const Ints& axes = {}, bool keepdim = false, std::int64_t correction = 1) const;
  Tensor std(const Ints& axes = {}, bool keepdim = false, std::int64_t correction = 1) const;
  std::pair<Tensor, Tensor> var_mean(const Ints& axes = {}, bool keepdim = false,
                                     std::int64_t correction = 1) const;
  std::pair<Tensor, Tensor> std_mean(const Ints& axes = {}, bool keepdim = false,
                                     std::int64_t correction = 1) const;
  Tensor any(const Ints& axes = {}, bool keepdim = false) const;
  Tensor all(const Ints& axes = {}, bool keepdim = false) const;
  Tensor argmax(std::optional<std::int64_t> axis = std::nullopt, bool keepdim = false) const;
  Tensor argmin(std::optional<std::int64_t> axis = std::nullopt, bool keepdim = false) const;
  Tensor logsumexp(const Ints& axes = {}, bool keepdim = false) const;
  Tensor softmax(std::int64_t axis = -1, std::optional<DataType> dtype = std::nullopt) const;
  Tensor log_softmax(std::int64_t axis = -1, std::optional<DataType> dtype = std::nullopt) const;
  Tensor softmin(std::int64_t axis = -1, std::optional<DataType> dtype = std::nullopt) const;
  Tensor normalize(double p = 2, std::int64_t axis = 1, double eps = 1e-12) const;
  Tensor usum(const std::vector<Tensor>& others) const;   // this plus all of them
  Tensor uprod(const std::vector<Tensor>& others) const;  // this times all of them

  // ---- scans
  Tensor cumsum(std::int64_t axis = 0) const;
  Tensor cumprod(std::int64_t axis = 0) const;
  std::pair<Tensor, Tensor> cummax(std::int64_t axis = 0) const;  // values, indices of the last of equals
  std::pair<Tensor, Tensor> cummin(std::int64_t axis = 0) const;
  Tensor logcumsumexp(std::int64_t axis = 0) const;

  // ---- elementwise, one method per row of unary.def and binary.def
#define LATHE_UNARY(name, meaning) Tensor name() const;
#include "lathe/unary.def"
#undef LATHE_UNARY
#define LATHE_BINARY(name, rule, meaning) Tensor name(const Operand& other) const;
#include "lathe/binary.def"
#undef LATHE_BINARY
  Tensor div(const Operand& other, std::string_view rounding = "") const;  // "", "trunc" or "floor"
  Tensor pow(const Operand& exponent) const;
  Tensor rpow(Number base) const;  // base to the power of this
  Tensor lerp(const Tensor& end, const Operand& weight) const;
  Tensor where(const Operand& yes, const Operand& no) const;  // this is the condition
  Tensor masked_fill(const Tensor& mask, const Operand& value) const;
  Tensor isclose(const Operand& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;
  bool allclose(const Operand& other, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;
  Tensor clamp(std::optional<Number> low = std::nullopt, std::optional<Number> high = std::nullopt) const;
  Tensor clamp(const Tensor* low, const Tensor* high) const;
  Tensor clip(std::optional<Number> low = std::nullopt, std::optional<Number> high = std::nullopt) const {
    return clamp(low, high);
  }
  Tensor hardtanh(double low = -1, double high = 1) const;
  Tensor leaky_relu(double slope = 0.01) const;
  Tensor elu(double alpha = 1) const;
  Tensor celu(double alpha = 1) const;
  Tensor gelu(std::string_view approximate = "tanh") const;  // "tanh" or "none"
  Tensor softplus(double beta = 1, double threshold = 20) const;

  // ---- products and layers
  Tensor dot(const Tensor& other, std::optional<DataType> accumulate = std::nullopt) const;
  Tensor matmul(const Tensor& other, std::optional<DataType> accumulate = std::nullopt) const {
    return dot(other, accumulate);
  }
  static Tensor einsum(std::string_view formula, const std::vector<Tensor>& operands);
  Tensor linear(const Tensor& weight, const Tensor* bias = nullptr) const;  // weight is (in, out)
  Tensor sequential(const std::vector<std::function<Tensor(const Tensor&)>>& layers) const;
  Tensor conv2d(const Tensor& weight, const Tensor* bias = nullptr, const ConvOptions& options = {}) const;
  Tensor conv_transpose2d(const Tensor& weight, const Tensor* bias = nullptr,
                          const ConvTransposeOptions& options = {}) const;
  Tensor avg_pool2d(const Ints& kernel = {2, 2}, const PoolOptions& options = {}) const;
  Tensor max_pool2d(const Ints& kernel = {2, 2}, const PoolOptions& options = {}) const;
  std::pair<Tensor, Tensor> max_pool2d_with_indices(const Ints& kernel = {2, 2},
                                                    const PoolOptions& options = {}) const;
  Tensor max_unpool2d(const Tensor& indices, const Ints& kernel = {2, 2}, const PoolOptions& options = {},
                      std::optional<Shape> output = std::nullopt) const;
  Tensor layernorm(const Ints& axes = -1, double eps = 1e-5) const;
  Tensor batchnorm(const Tensor* weight, const Tensor* bias, const Tensor& mean, const Tensor& invstd,
                   const Ints& axes = 1) const;
  Tensor dropout(double p = 0.5) const;  // does nothing outside training
  Tensor scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                      const AttentionOptions& options = {}) const;
  Tensor interpolate(const std::vector<std::int64_t>& size, std::string_view mode = "linear",
                     bool align_corners = false) const;

  // ---- losses
  Tensor binary_crossentropy(const Tensor& target, Reduction reduction = Reduction::Mean) const;
  Tensor binary_crossentropy_logits(const Tensor& target, Reduction reduction = Reduction::Mean,
                                    const Tensor* pos_weight = nullptr) const;
  Tensor sparse_categorical_crossentropy(const Tensor& target, std::int64_t ignore_index = -1,
                                         double label_smoothing = 0,
                                         Reduction reduction = Reduction::Mean) const;
  Tensor cross_entropy(const Tensor& target, const CrossEntropyOptions& options = {}) const;
  Tensor nll_loss(const Tensor& target, const Tensor* weight = nullptr,
                  std::optional<std::int64_t> ignore_index = std::nullopt,
                  Reduction reduction = Reduction::Mean) const;

  // ---- linear algebra and digests
  std::pair<Tensor, Tensor> qr() const;
  struct Svd;
  Svd svd(bool full_matrices = true) const;
  Tensor newton_schulz(std::int64_t steps, const std::vector<double>& coefficients, double eps = 1e-7) const;
  Tensor keccak(std::string_view kind = "sha3_256") const;  // of uint8 rows: sha3_224, sha3_256, shake_128
  Tensor hash() const;                                      // 16 bytes of the tensor's content

  // ---- in place
  Tensor& operator+=(const Operand& y) { return assign(add(y)); }
  Tensor& operator-=(const Operand& y) { return assign(sub(y)); }
  Tensor& operator*=(const Operand& y) { return assign(mul(y)); }
  Tensor& operator/=(const Operand& y) { return assign(div(y)); }
  Tensor& operator%=(const Operand& y) { return assign(mod(y)); }
  Tensor& operator&=(const Operand& y) { return assign(bitwise_and(y)); }
  Tensor& operator|=(const Operand& y) { return assign(bitwise_or(y)); }
  Tensor& operator^=(const Operand& y) { return assign(bitwise_xor(y)); }
  Tensor& operator<<=(const Operand& y) { return assign(lshift(y)); }
  Tensor& operator>>=(const Operand& y) { return assign(rshift(y)); }

  // For the library itself.
  explicit Tensor(std::shared_ptr<TensorImpl> impl);
  const std::shared_ptr<TensorImpl>& impl() const { return impl_; }

  // A language binding's object for this handle, so that a tensor always maps to the same object; null until
  // set.
  void* front() const;
  void set_front(void* object) const;

 private:
  static Tensor arange_to(const Size& stop, const TensorOptions& options);
  template <class E>
  static Tensor from_values(const std::vector<E>& values, const Shape& shape, const TensorOptions& options);
  static Tensor from_array(const void* values, std::size_t count, DataType dtype, const Shape& shape,
                           const TensorOptions& options);
  void copy_out_as(DataType dtype, void* to, std::size_t bytes) const;

  std::shared_ptr<TensorImpl> impl_;  // shared: handles are copied like values
};

struct Tensor::Svd {
  Tensor u, s, v;
};

// C++ operators on tensors; `/` divides as floats. Either operand may be a literal.
#define LATHE_OPERATOR(op, method)                                                    \
  inline Tensor operator op(const Tensor& x, const Tensor& y) { return x.method(y); } \
  template <class N>                                                                  \
    requires std::is_arithmetic_v<N>                                                  \
  Tensor operator op(const Tensor& x, N y) {                                          \
    return x.method(y);                                                               \
  }                                                                                   \
  template <class N>                                                                  \
    requires std::is_arithmetic_v<N>                                                  \
  Tensor operator op(N x, const Tensor& y) {                                          \
    return literal_beside(x, y).method(y);                                            \
  }
Tensor literal_beside(Number literal,
                      const Tensor& tensor);  // the literal as a scalar tensor, in the dtype they promote to
LATHE_OPERATOR(+, add)
LATHE_OPERATOR(-, sub)
LATHE_OPERATOR(*, mul)
LATHE_OPERATOR(/, fdiv)
LATHE_OPERATOR(%, mod)
LATHE_OPERATOR(&, bitwise_and)
LATHE_OPERATOR(|, bitwise_or)
LATHE_OPERATOR(^, bitwise_xor)
LATHE_OPERATOR(<<, lshift)
LATHE_OPERATOR(>>, rshift)
LATHE_OPERATOR(==, eq)
LATHE_OPERATOR(!=, ne)
LATHE_OPERATOR(<, lt)
LATHE_OPERATOR(<=, le)
LATHE_OPERATOR(>, gt)
LATHE_OPERATOR(>=, ge)
#undef LATHE_OPERATOR
inline Tensor operator-(const Tensor& x) { return x.neg(); }
inline Tensor operator~(const Tensor& x) { return x.bitwise_not(); }

// The dtype of a C++ arithmetic type.
template <class E>
constexpr DataType dtype_of() {
  static_assert(std::is_arithmetic_v<E>);
  if constexpr (std::is_same_v<E, bool>)
    return dtypes::bool_;
  else if constexpr (std::is_floating_point_v<E>)
    return sizeof(E) == 4 ? dtypes::float32 : dtypes::float64;
  else if constexpr (std::is_signed_v<E>)
    return sizeof(E) == 1   ? dtypes::int8
           : sizeof(E) == 2 ? dtypes::int16
           : sizeof(E) == 4 ? dtypes::int32
                            : dtypes::int64;
  else
    return sizeof(E) == 1   ? dtypes::uint8
           : sizeof(E) == 2 ? dtypes::uint16
           : sizeof(E) == 4 ? dtypes::uint32
                            : dtypes::uint64;
}

template <class E>
Tensor Tensor::from_values(const std::vector<E>& values, const Shape& shape, const TensorOptions& options) {
  static_assert(!std::is_same_v<E, long double>, "long double has no dtype");
  if constexpr (std::is_same_v<E, bool>) {
    std::vector<std::uint8_t> plain(values.begin(), values.end());
    return from_array(plain.data(), plain.size(), dtypes::bool_, shape, options);
  } else {
    return from_array(values.data(), values.size(), dtype_of<E>(), shape, options);
  }
}

template <class E>
std::vector<E> Tensor::data() const {
  const auto count = static_cast<std::size_t>(numel().bound_value());
  if constexpr (std::is_same_v<E, bool>) {
    std::vector<std::uint8_t> plain(count);
    copy_out_as(dtypes::bool_, plain.data(), count);
    return std::vector<bool>(plain.begin(), plain.end());
  } else {
    std::vector<E> out(count);
    copy_out_as(dtype_of<E>(), out.data(), count * sizeof(E));
    return out;
  }
}

template <class E>
E Tensor::item() const {
  if (!(numel().bound_value() == 1))
    throw UserError("item", "the tensor has shape " + to_string(shape()) + ", which is not one element")
        .help("index it, or use data() for all elements");
  return data<E>()[0];
}

// ---- scopes of this thread

// Operations made inside the scope take no part in backward().
class NoGradScope {
 public:
  NoGradScope();
  ~NoGradScope();
  NoGradScope(const NoGradScope&) = delete;
  NoGradScope& operator=(const NoGradScope&) = delete;

 private:
  bool before_;
};

// Sets training mode inside the scope.
class TrainingScope {
 public:
  explicit TrainingScope(bool on = true);
  ~TrainingScope();
  TrainingScope(const TrainingScope&) = delete;
  TrainingScope& operator=(const TrainingScope&) = delete;

 private:
  bool before_;
};

// ---- user-defined ops
// A function of tensors with a user-defined gradient. `forward` computes it with ordinary operations;
// `gradient` takes inputs, output and incoming gradient and returns one gradient per input (an undefined
// Tensor for none). Without `gradient` the forward function is differentiated.
struct CustomOp {
  std::string name;
  std::function<Tensor(const std::vector<Tensor>& inputs)> forward;
  std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs, const Tensor& output,
                                    const Tensor& grad)>
      gradient;
};
void register_op(CustomOp op);  // throws UserError if another op has the name
Tensor custom(std::string_view name, const std::vector<Tensor>& inputs);

}  // namespace lathe
