// Attention and rotary embeddings, as ai.onnx has them from version 23 on.
#include <fmt/format.h>

#include <cmath>

#include "formats/onnx/ops/attention.h"
#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

// (batch, length, heads * size) as (batch, heads, length, size).
Tensor split_heads(const Call& c, const Tensor& x, std::int64_t heads) {
  if (x.ndim() == 4) return x;
  if (heads < 1) c.fail("the number of heads is needed for inputs of three axes");
  const std::int64_t width = concrete(x.size(2), c, "the width");
  if (width % heads != 0) c.fail(fmt::format("a width of {} does not make {} heads", width, heads));
  return x.reshape({x.size(0), x.size(1), heads, width / heads}).permute({0, 2, 1, 3});
}

Tensor joined_heads(const Tensor& x) {
  return x.permute({0, 2, 1, 3}).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

// What is added to the scores: the mask, and -inf where a query does not see a key; nothing where all see
// all.
Tensor attention_bias(const Call& c, std::int64_t queries, std::int64_t keys, DataType dtype) {
  Tensor bias;
  auto add_bias = [&](const Tensor& t) { bias = bias.defined() ? bias + t : t; };
  if (c.has(3)) {
    Tensor mask = c.x(3);
    if (mask.dtype().is_bool()) mask = mask.where(0.0, -INFINITY).cast(dtype);
    const std::int64_t have = concrete(mask.size(-1), c, "the mask");
    if (have < keys) mask = padded(mask, mask.ndim() - 1, 0, keys - have, -INFINITY);
    add_bias(mask.cast(dtype));
  }
  const TensorOptions whole{.dtype = dtypes::int64, .device = c.device()};
  const Tensor key_places = Tensor::arange(keys, whole);
  // The place of each query among the keys: after the past ones, or at the end of what a cache holds.
  Tensor places = Tensor::arange(queries, whole).unsqueeze(1);
  if (c.has(4))
    places = places + concrete(c.x(4).size(2), c, "the past");
  else if (c.has(6))
    places = places + (c.x(6).cast(dtypes::int64).reshape({-1, 1, 1, 1}) - queries);
  auto keep = [&](const Tensor& seen) { add_bias(seen.where(0.0, -INFINITY).cast(dtype)); };
  const std::int64_t left = c.integer("left_window_size", -1), right = c.integer("right_window_size", -1);
  if (c.integer("is_causal", 0) != 0) keep(key_places.le(places));
  if (left >= 0) keep(key_places.ge(places - left));
  if (right >= 0) keep(key_places.le(places + right));
  if (c.has(6)) keep(key_places.lt(c.x(6).cast(dtypes::int64).reshape({-1, 1, 1, 1})));
  return bias;
}

Outputs attention(const Call& c) {
  const bool flat = c.x(0).ndim() == 3;
  const Tensor q = split_heads(c, c.x(0), c.integer("q_num_heads", 0));
  Tensor k = split_heads(c, c.x(1), c.integer("kv_num_heads", 0)),
         v = split_heads(c, c.x(2), c.integer("kv_num_heads", 0));
  if (c.has(4)) k = Tensor::cat({c.x(4), k}, 2);
  if (c.has(5)) v = Tensor::cat({c.x(5), v}, 2);
  const Tensor present_key = k, present_value = v;
  const std::int64_t heads = concrete(q.size(1), c, "the heads"), own = concrete(k.size(1), c, "the heads");
  if (own < 1 || heads % own != 0) c.fail(fmt::format("{} heads of queries and {} of keys", heads, own));
  if (heads != own) {
    k = k.repeat_interleave(heads / own, 1);
    v = v.repeat_interleave(heads / own, 1);
  }
  const double scale =
      c.number("scale", 1.0 / std::sqrt(static_cast<double>(concrete(q.size(3), c, "the head size"))));
  const double cap = c.number("softcap", 0.0), root = std::sqrt(scale);
  const DataType dtype = q.dtype();
  Tensor scores = (q * root).cast(dtype).matmul((k * root).cast(dtype).transpose(-1, -2));
  const Tensor raw = scores;
  const Tensor bias =
      attention_bias(c, concrete(q.size(2), c, "the length"), concrete(k.size(2), c, "the length"), dtype);
  const std::int64_t mode = c.integer("qk_matmul_output_mode", 0);
  Tensor shown = raw;
  if (cap != 0) scores = ((scores / cap).tanh() * cap).cast(dtype);
  if (mode == 1) shown = scores;
  if (bias.defined()) scores = scores + bias;
  if (mode == 2) shown = scores;
  Tensor weights = scores.softmax(-1);
  // Rows that see nothing are zero.
  if (bias.defined()) weights = scores.max(-1, true).eq(-INFINITY).where(0.0, weights).cast(dtype);
  if (mode == 3) shown = weights;
  const Tensor y = weights.matmul(v);
  return {flat ? joined_heads(y) : y, present_key, present_value, shown};
}

Outputs rotary(const Call& c) {
  const Tensor& x = c.x(0);
  const Tensor heads = x.ndim() == 4 ? x : split_heads(c, x, c.integer("num_heads", 0));
  const Tensor y = rotated(c, heads, c.x(1), c.x(2), c.has(3) ? &c.x(3) : nullptr,
                           c.integer("interleaved", 0) != 0, c.integer("rotary_embedding_dim", 0));
  return {x.ndim() == 4 ? y : joined_heads(y)};
}

// clang-format off
const OpRow kRows[] = {{"Attention", 23, attention}, {"RotaryEmbedding", 23, rotary}};
// clang-format on

}  // namespace

Tensor rotated(const Call& c, const Tensor& x, const Tensor& cosines, const Tensor& sines,
               const Tensor* positions, bool interleaved, std::int64_t width) {
  const std::int64_t size = concrete(x.size(3), c, "the head size"), n = width == 0 ? size : width,
                     half = n / 2;
  if (n > size || n % 2 != 0) c.fail(fmt::format("{} of {} elements cannot be rotated", n, size));
  const Tensor turned = sliced(x, 3, 0, n), rest = sliced(x, 3, n, size);
  auto table = [&](const Tensor& t) {
    const Tensor own = positions != nullptr ? t.getitem({*positions}) : t;  // (batch, length, half)
    return sliced(own, own.ndim() - 1, 0, half).unsqueeze(1);
  };
  const Tensor cosine = table(cosines), sine = table(sines);
  Tensor a, b;
  if (interleaved) {
    const Tensor pairs = turned.reshape({x.size(0), x.size(1), x.size(2), half, 2});
    a = pairs.getitem({kEllipsis, 0});
    b = pairs.getitem({kEllipsis, 1});
  } else {
    a = sliced(turned, 3, 0, half);
    b = sliced(turned, 3, half, n);
  }
  const Tensor first = a * cosine - b * sine, second = a * sine + b * cosine;
  const Tensor y = interleaved
                       ? Tensor::stack({first, second}, 4).reshape({x.size(0), x.size(1), x.size(2), n})
                       : Tensor::cat({first, second}, 3);
  return n == size ? y : Tensor::cat({y, rest}, 3);
}

OpTable attention_ops() { return {"", "attention", kRows}; }

}  // namespace lathe::onnx
