// Random numbers, counter-based: element i of a draw is a function of the seed and of the draw's first count
// plus i, so a stream is the same on every device and however a draw is split. docs/tensor.md states the
// stream. Seed and count live in buffers, so that a captured step that is replayed goes on in the stream.
#include <cmath>
#include <map>
#include <numbers>

#include <fmt/format.h>

#include "tensor/impl.h"
#include "tensor/realize.h"

namespace lathe {
namespace {

struct Stream {
  Tensor key;    // uint32 x 2: low and high word of the seed
  Tensor count;  // uint64 x 1: numbers drawn so far
};

struct State {
  std::recursive_mutex mutex;
  std::uint64_t seed = 0;
  std::map<std::string, Stream> streams;  // by device
};
State& state() {
  static auto* s = new State;  // never destroyed: tensors may outlive it
  return *s;
}

Stream& stream_of(const std::string& device) {
  State& s = state();
  auto at = s.streams.find(device);
  if (at != s.streams.end()) return at->second;
  std::vector<std::uint32_t> key{static_cast<std::uint32_t>(s.seed),
                                 static_cast<std::uint32_t>(s.seed >> 32)};
  TensorOptions on{.device = device};
  return s.streams[device] = {Tensor(key, on), Tensor(std::vector<std::uint64_t>{0}, on)};
}

Tensor rotated(const Tensor& x, int by) { return (x << by) | (x >> (32 - by)); }

// Threefry 2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
std::pair<Tensor, Tensor> threefry(const Tensor& key0, const Tensor& key1, Tensor x0, Tensor x1) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const Tensor keys[3] = {key0, key1, key0 ^ key1 ^ static_cast<std::int64_t>(0x1BD11BDA)};
  x0 = x0 + keys[0];
  x1 = x1 + keys[1];
  for (int group = 0; group < 5; ++group) {
    for (int by : kRotations[group % 2]) {
      x0 = x0 + x1;
      x1 = rotated(x1, by) ^ x0;
    }
    x0 = x0 + keys[(group + 1) % 3];
    x1 = x1 + keys[(group + 2) % 3] + (group + 1);
  }
  return {x0, x1};
}

struct Words {
  Tensor low, high;
};

// `count` pairs of 32-bit words; the stream moves on by `count`.
Words draw(std::int64_t count, const std::string& device) {
  if (count >= (std::int64_t{1} << 32))
    throw UserError("rand", fmt::format("{} random numbers in one draw; at most 2^32 - 1", count))
        .help("draw in parts");
  NoGradScope no_grad;
  std::lock_guard guard(state().mutex);
  Stream& s = stream_of(device);
  forget_done_versions(s.count);
  Tensor from = s.count.reshape({}), from_low = from.cast(dtypes::uint32),
         from_high = (from >> 32).cast(dtypes::uint32);
  Tensor low = Tensor::arange(Size(count), {.dtype = dtypes::uint32, .device = device}) + from_low;
  Tensor high = from_high + (low < from_low).cast(dtypes::uint32);  // the carry
  auto [x0, x1] = threefry(s.key[0], s.key[1], low, high);
  s.count += count;
  return {x0, x1};
}

}  // namespace

NodeMap<char> stream_counters() {
  NodeMap<char> out;
  std::lock_guard streams(state().mutex);
  std::lock_guard storages(storage_mutex());
  for (const auto& [device, stream] : state().streams)
    if (const Node memory = memory_of(stream.count.impl()->storage->value)) out[base_memory(memory)] = 1;
  return out;
}

namespace {

std::int64_t count_of(const Shape& shape, std::string_view op) {
  std::int64_t n = 1;
  for (const Size& s : shape) {
    if (s.is_symbolic())
      throw UserError(op, fmt::format("shape {} is symbolic", to_string(shape)))
          .help("draw for the largest size and shrink");
    if (s.value() < 0) throw UserError(op, fmt::format("shape {} has a negative size", to_string(shape)));
    n *= s.value();
  }
  return n;
}

std::string device_for(const TensorOptions& options) {
  return options.device.empty() ? default_device() : canonical_device(options.device);
}

Tensor finish(Tensor t, const TensorOptions& options) {
  if (options.requires_grad) t.requires_grad_();
  return t;
}

// Stored: a random number must not be computed again by each reader.
Tensor stored(const Tensor& t, const Shape& shape) {
  Tensor shaped = t.reshape(shape);
  return make_like(shaped, contiguous(node_of(shaped)));
}

// [0, 1) with as many bits as the dtype's mantissa holds.
Tensor unit_uniform(const Words& w, DataType dtype) {
  if (dtype == dtypes::float64) {
    Tensor whole = w.high.cast(dtypes::uint64) << 21 | w.low.cast(dtypes::uint64) >> 11;
    return whole.cast(dtypes::float64) * std::ldexp(1.0, -53);
  }
  int bits = dtypes::finfo(dtype).mantissa_bits + 1;
  return ((w.low >> (32 - bits)).cast(dtypes::float32) * std::ldexp(1.0, -bits)).cast(dtype);
}

DataType float_for(const TensorOptions& options, std::string_view op) {
  DataType d = options.dtype ? *options.dtype : dtypes::default_float();
  if (!d.is_float())
    throw TypeError(op, fmt::format("{} is not a float dtype", d.name())).help("randint gives integers");
  return d;
}

double fan_in(const Shape& shape) {
  double n = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) n *= static_cast<double>(shape[i].value());
  return std::max(n, 1.0);
}

}  // namespace

void Tensor::manual_seed(std::uint64_t seed) {
  std::lock_guard guard(state().mutex);
  state().seed = seed;
  state().streams.clear();
}

Tensor Tensor::random_bits(std::int64_t count, const TensorOptions& options) {
  Scope scope;
  if (count < 0) throw UserError("random_bits", fmt::format("{} numbers", count));
  return stored(draw(count, device_for(options)).low, {Size(count)});
}

Tensor Tensor::rand(const Shape& shape, const TensorOptions& options) {
  Scope scope;
  DataType dtype = float_for(options, "rand");
  return finish(stored(unit_uniform(draw(count_of(shape, "rand"), device_for(options)), dtype), shape),
                options);
}

// Box and Muller: sqrt(-2 ln u) cos(2 pi v) with u, v from the two words of one count.
Tensor Tensor::randn(const Shape& shape, const TensorOptions& options) {
  Scope scope;
  DataType dtype = float_for(options, "randn");
  Words w = draw(count_of(shape, "randn"), device_for(options));
  DataType wide = dtype == dtypes::float64 ? dtypes::float64 : dtypes::float32;
  Tensor u = unit_uniform({w.low, w.low}, dtypes::float32).cast(wide),
         v = unit_uniform({w.high, w.high}, dtypes::float32).cast(wide);
  Tensor radius = ((1.0 - u).log() * -2.0).sqrt();
  Tensor out = radius * (v * (2 * std::numbers::pi)).cos();
  return finish(stored(out.cast(dtype), shape), options);
}

Tensor Tensor::randint(const Shape& shape, std::int64_t low, std::int64_t high,
                       const TensorOptions& options) {
  Scope scope;
  if (high <= low) throw UserError("randint", fmt::format("[{}, {}) is empty", low, high));
  const DataType least = Number(low).dtype(), most = Number(high - 1).dtype();
  DataType dtype = options.dtype ? *options.dtype : least.itemsize() > most.itemsize() ? least : most;
  if (!dtype.is_int()) throw TypeError("randint", fmt::format("{} is not an integer dtype", dtype.name()));
  auto span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (span > (std::uint64_t{1} << 32))
    throw UserError("randint", fmt::format("[{}, {}) has more than 2^32 numbers", low, high));
  Words w = draw(count_of(shape, "randint"), device_for(options));
  // The high half of a product by the span: even to within 2^-32.
  Tensor scaled = (w.low.cast(dtypes::uint64) * static_cast<std::int64_t>(span)) >> 32;
  return stored((scaled.cast(dtypes::int64) + low).cast(dtype), shape);
}

Tensor Tensor::normal(const Shape& shape, double mean, double std, const TensorOptions& options) {
  if (!(std >= 0)) throw UserError("normal", fmt::format("the standard deviation is {}", std));
  TensorOptions plain = options;
  plain.requires_grad = false;
  return finish(randn(shape, plain) * std + mean, options);
}

Tensor Tensor::uniform(const Shape& shape, double low, double high, const TensorOptions& options) {
  Scope scope;
  if (!(low <= high)) throw UserError("uniform", fmt::format("[{}, {}) is empty", low, high));
  DataType dtype = options.dtype ? *options.dtype : dtypes::default_float();
  TensorOptions plain = options;
  plain.requires_grad = false;
  plain.dtype = dtype.is_float() ? dtype : dtypes::default_float();
  return finish((rand(shape, plain) * (high - low) + low).cast(dtype), options);
}

Tensor Tensor::scaled_uniform(const Shape& shape, const TensorOptions& options) {
  double bound = 1 / std::sqrt(static_cast<double>(count_of(shape, "scaled_uniform")));
  return uniform(shape, -bound, bound, options);
}

Tensor Tensor::glorot_uniform(const Shape& shape, const TensorOptions& options) {
  if (shape.empty()) throw UserError("glorot_uniform", "a scalar has no number of inputs");
  double bound = std::sqrt(6 / (static_cast<double>(shape[0].value()) + fan_in(shape)));
  return uniform(shape, -bound, bound, options);
}

Tensor Tensor::kaiming_uniform(const Shape& shape, double a, const TensorOptions& options) {
  double bound = std::sqrt(6 / ((1 + a * a) * fan_in(shape)));
  return uniform(shape, -bound, bound, options);
}

Tensor Tensor::kaiming_normal(const Shape& shape, double a, const TensorOptions& options) {
  return normal(shape, 0, std::sqrt(2 / ((1 + a * a) * fan_in(shape))), options);
}

Tensor Tensor::randperm(std::int64_t n, const TensorOptions& options) {
  Scope scope;
  if (n < 0) throw UserError("randperm", fmt::format("{} elements", n));
  // Sorting random words; equal ones keep their order.
  Tensor order = random_bits(n, {.device = options.device}).argsort();
  return order.cast(options.dtype ? *options.dtype : dtypes::default_int());
}

Tensor Tensor::multinomial(std::int64_t samples, bool replacement) const {
  Scope scope;
  if (ndim() < 1 || ndim() > 2)
    throw UserError("multinomial", fmt::format("{} has neither one nor two axes", to_string(shape())));
  if (samples <= 0) throw UserError("multinomial", fmt::format("{} samples", samples));
  Tensor weights = (ndim() == 1 ? unsqueeze(0) : *this).detach().cast(dtypes::float32);
  Size rows = weights.size(0);
  Tensor out;
  if (replacement || samples == 1) {
    Tensor bounds = weights.cumsum(1);
    Tensor u = rand({rows, Size(samples)}, {.dtype = dtypes::float32, .device = device()}) *
               bounds.getitem({Slice{}, Slice{-1, {}, 1}});
    out = (u.unsqueeze(2) >= bounds.unsqueeze(1)).sum(2);
    out = out.minimum(weights.size(1).value() - 1);
  } else {
    if (samples > weights.size(1).value())
      throw UserError("multinomial",
                      fmt::format("{} samples without replacement from {}", samples, weights.size(1).str()));
    // The largest of u^(1/w) are a sample without replacement (Efraimidis and Spirakis, 2006).
    Tensor u = rand(weights.shape(), {.dtype = dtypes::float32, .device = device()});
    Tensor score = (weights > 0).where((1.0 - u).log() / weights, -INFINITY);
    out = score.topk(samples, 1).second;
  }
  out = out.cast(dtypes::int32);
  return ndim() == 1 ? out.squeeze(0) : out;
}

}  // namespace lathe
