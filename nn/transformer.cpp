#include "lathe/nn/transformer.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "lathe/nn/attention.h"
#include "nn/initial.h"

namespace lathe::nn {
namespace {

const Tensor* or_null(const Tensor& t) { return t.defined() ? &t : nullptr; }

// What is added to the scores: PyTorch's masks say where not to look.
Tensor added(const Tensor& mask, DataType dtype) {
  if (!mask.dtype().is_bool()) return mask.cast(dtype);
  return mask.where(-INFINITY, 0.0).cast(dtype);
}

// x + f(x) with the normalization before or after.
Tensor residual(const Tensor& x, const LayerNorm& norm, bool norm_first,
                const std::function<Tensor(const Tensor&)>& f) {
  return norm_first ? x + f(norm(x)) : norm(x + f(x));
}

Tensor feed_forward(const Tensor& x, const Linear& linear1, const Linear& linear2,
                    const TransformerLayerOptions& options) {
  return linear2(options.activation(linear1(x)).dropout(options.dropout)).dropout(options.dropout);
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t heads, double p, bool with_bias,
                                       bool first)
    : out_proj(embed_dim, embed_dim, with_bias), num_heads(heads), dropout(p), batch_first(first) {
  if (heads <= 0 || embed_dim % heads != 0)
    throw UserError("MultiheadAttention",
                    fmt::format("{} features do not divide into {} heads", embed_dim, heads));
  // Glorot's bound for the packed matrix, and no bias, as PyTorch begins.
  in_proj_weight =
      uniform_parameter({3 * embed_dim, embed_dim}, std::sqrt(6.0 / static_cast<double>(4 * embed_dim)));
  if (!with_bias) return;
  in_proj_bias = constant_parameter({3 * embed_dim}, 0);
  out_proj.bias = constant_parameter({embed_dim}, 0);
}

void MultiheadAttention::parts(Parts& p) {
  p("in_proj_weight", in_proj_weight)("in_proj_bias", in_proj_bias)("out_proj", out_proj);
}

Tensor MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const AttentionMasks& masks) const {
  const ModeScope mode(*this);
  const std::int64_t dim = in_proj_weight.size(1).value();
  for (const Tensor* t : {&query, &key, &value})
    if (t->ndim() != 3 || !(t->size(2) == dim))
      throw UserError("MultiheadAttention",
                      fmt::format("an input has shape {}, three axes with {} features are needed",
                                  to_string(t->shape()), dim))
          .help(batch_first ? "give (batch, time, dim)" : "give (time, batch, dim)");
  auto project = [&](const Tensor& x, std::int64_t part) {
    const Slice rows{part * dim, (part + 1) * dim};
    const Tensor bias = in_proj_bias.defined() ? in_proj_bias[rows] : Tensor();
    const Tensor y = x.linear(in_proj_weight[rows].transpose(), or_null(bias));
    return split_heads(batch_first ? y : y.transpose(0, 1), num_heads);
  };
  const Tensor q = project(query, 0), k = project(key, 1), v = project(value, 2);
  Tensor mask;
  if (masks.attention != nullptr) mask = added(*masks.attention, q.dtype());
  if (masks.padding != nullptr) {
    const Tensor filling = added(*masks.padding, q.dtype()).unsqueeze(1).unsqueeze(1);
    mask = mask.defined() ? mask + filling : filling;
  }
  Tensor blocked;
  if (masks.causal && mask.defined()) {  // the attention takes one of the two
    const Size rows = q.size(2), columns = k.size(2);
    blocked = Tensor::ones({rows, columns}, {.dtype = dtypes::bool_, .device = q.device()}).tril();
    mask = mask + added(blocked.logical_not(), q.dtype());
  }
  const Tensor attended = q.scaled_dot_product_attention(
      k, v, {.mask = or_null(mask), .dropout = dropout, .causal = masks.causal && !mask.defined()});
  const Tensor joined = out_proj(join_heads(attended));
  return batch_first ? joined : joined.transpose(0, 1);
}

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& opts)
    : self_attn(d_model, nhead, opts.dropout, true, opts.batch_first),
      linear1(d_model, opts.dim_feedforward),
      linear2(opts.dim_feedforward, d_model),
      norm1(d_model, opts.layer_norm_eps),
      norm2(d_model, opts.layer_norm_eps),
      options(opts) {}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const AttentionMasks& masks) const {
  const ModeScope mode(*this);
  const Tensor mixed = residual(x, norm1, options.norm_first, [&](const Tensor& t) {
    return self_attn(t, t, t, masks).dropout(options.dropout);
  });
  return residual(mixed, norm2, options.norm_first,
                  [&](const Tensor& t) { return feed_forward(t, linear1, linear2, options); });
}

void TransformerEncoderLayer::parts(Parts& p) {
  p("self_attn", self_attn)("linear1", linear1)("linear2", linear2)("norm1", norm1)("norm2", norm2);
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                                                 const TransformerLayerOptions& opts)
    : self_attn(d_model, nhead, opts.dropout, true, opts.batch_first),
      multihead_attn(d_model, nhead, opts.dropout, true, opts.batch_first),
      linear1(d_model, opts.dim_feedforward),
      linear2(opts.dim_feedforward, d_model),
      norm1(d_model, opts.layer_norm_eps),
      norm2(d_model, opts.layer_norm_eps),
      norm3(d_model, opts.layer_norm_eps),
      options(opts) {}

Tensor TransformerDecoderLayer::operator()(const Tensor& x, const Tensor& memory, const AttentionMasks& masks,
                                           const AttentionMasks& memory_masks) const {
  const ModeScope mode(*this);
  const Tensor mixed = residual(x, norm1, options.norm_first, [&](const Tensor& t) {
    return self_attn(t, t, t, masks).dropout(options.dropout);
  });
  const Tensor crossed = residual(mixed, norm2, options.norm_first, [&](const Tensor& t) {
    return multihead_attn(t, memory, memory, memory_masks).dropout(options.dropout);
  });
  return residual(crossed, norm3, options.norm_first,
                  [&](const Tensor& t) { return feed_forward(t, linear1, linear2, options); });
}

void TransformerDecoderLayer::parts(Parts& p) {
  p("self_attn", self_attn)("multihead_attn", multihead_attn)("linear1", linear1)("linear2", linear2);
  p("norm1", norm1)("norm2", norm2)("norm3", norm3);
}

}  // namespace lathe::nn
