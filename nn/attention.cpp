#include "lathe/nn/attention.h"

#include <fmt/format.h>

namespace lathe::nn {

Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

Tensor join_heads(const Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

MultiHeadAttention::MultiHeadAttention(std::int64_t dim, std::int64_t n, bool with_bias, double p)
    : query(dim, dim, with_bias),
      key(dim, dim, with_bias),
      value(dim, dim, with_bias),
      out(dim, dim, with_bias),
      heads(n),
      dropout(p) {
  if (heads <= 0 || dim % heads != 0)
    throw UserError("MultiHeadAttention", fmt::format("{} features do not divide into {} heads", dim, heads));
}

Tensor MultiHeadAttention::attend(const Tensor& x, const Tensor& context, bool causal,
                                  const Tensor* mask) const {
  const ModeScope mode(*this);
  const Tensor q = split_heads(query(x), heads), k = split_heads(key(context), heads),
               v = split_heads(value(context), heads);
  return out(
      join_heads(q.scaled_dot_product_attention(k, v, {.mask = mask, .dropout = dropout, .causal = causal})));
}

TransformerBlock::TransformerBlock(std::int64_t dim, std::int64_t heads, std::int64_t feed_forward,
                                   const TransformerOptions& opts)
    : attention(dim, heads, true, opts.dropout),
      norm1(dim),
      norm2(dim),
      up(dim, feed_forward),
      down(feed_forward, dim),
      options(opts) {}

Tensor TransformerBlock::operator()(const Tensor& x, const Tensor* mask) const {
  const ModeScope mode(*this);
  auto mix = [&](const Tensor& t) { return attention(t, options.causal, mask).dropout(options.dropout); };
  auto feed = [&](const Tensor& t) { return down(options.activation(up(t))).dropout(options.dropout); };
  if (options.norm_first) {
    const Tensor mixed = x + mix(norm1(x));
    return mixed + feed(norm2(mixed));
  }
  const Tensor mixed = norm1(x + mix(x));
  return norm2(mixed + feed(mixed));
}

}  // namespace lathe::nn
