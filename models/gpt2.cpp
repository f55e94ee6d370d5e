#include "models/gpt2.h"

#include <fmt/format.h>

namespace lathe::models {

GPT2Block::GPT2Block(const GPT2Config& config)
    : ln_1(config.dim),
      ln_2(config.dim),
      attention(config.dim, 3 * config.dim),
      attention_out(config.dim, config.dim),
      up(config.dim, 4 * config.dim),
      down(4 * config.dim, config.dim),
      heads(config.heads) {}

Tensor GPT2Block::operator()(const Tensor& x) const {
  const std::vector<Tensor> qkv = attention(ln_1(x)).chunk(3, -1);
  const Tensor mixed = nn::split_heads(qkv[0], heads)
                           .scaled_dot_product_attention(nn::split_heads(qkv[1], heads),
                                                         nn::split_heads(qkv[2], heads), {.causal = true});
  const Tensor attended = x + attention_out(nn::join_heads(mixed));
  return attended + down(up(ln_2(attended)).gelu());
}

void GPT2Block::parts(nn::Parts& p) {
  p("ln_1", ln_1)("attn.c_attn", attention)("attn.c_proj", attention_out);
  p("ln_2", ln_2)("mlp.c_fc", up)("mlp.c_proj", down);
}

GPT2::GPT2(const GPT2Config& c)
    : config(c), tokens_table(c.vocabulary, c.dim), positions_table(c.context, c.dim), ln_f(c.dim) {
  for (std::int64_t i = 0; i < c.layers; ++i) blocks.emplace_back(c);
}

Tensor GPT2::operator()(const Tensor& tokens) const {
  if (tokens.ndim() != 2 || tokens.size(1).max() > config.context)
    throw UserError("GPT2", fmt::format("tokens have shape {}, (batch, up to {}) is needed",
                                        to_string(tokens.shape()), config.context));
  Tensor x = tokens_table(tokens) + positions_table.weight.shrink({{0, tokens.size(1)}, {0, config.dim}});
  for (const GPT2Block& block : blocks) x = block(x);
  return ln_f(x).linear(tokens_table.weight.transpose());
}

Tensor GPT2::loss(const Tensor& tokens, const Tensor& targets) const {
  return (*this)(tokens).flatten(0, 1).sparse_categorical_crossentropy(targets.flatten());
}

}  // namespace lathe::models
