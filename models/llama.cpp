#include "models/llama.h"

#include <fmt/format.h>

#include <cmath>

namespace lathe::models {
namespace {

const LlamaConfig& checked(const LlamaConfig& c) {
  if (c.heads <= 0 || c.kv_heads <= 0 || c.dim % c.heads != 0 || c.head_dim() % 2 != 0 ||
      c.heads % c.kv_heads != 0)
    throw UserError(
        "Llama", fmt::format("{} features, {} heads and {} key heads do not fit", c.dim, c.heads, c.kv_heads))
        .help("heads must divide the features into even parts, and key heads must divide heads");
  return c;
}

// The angle of every position (row) for every pair of features (column): position * theta^(-2 * pair /
// head_dim).
Tensor angles(const LlamaConfig& c) {
  const std::int64_t half = c.head_dim() / 2;
  std::vector<float> frequency;
  for (std::int64_t pair = 0; pair < half; ++pair)
    frequency.push_back(static_cast<float>(
        std::pow(c.rope_theta, -2.0 * static_cast<double>(pair) / static_cast<double>(c.head_dim()))));
  return Tensor::arange(c.context).cast(dtypes::float32).reshape({c.context, 1}) *
         Tensor(frequency).reshape({1, half});
}

Tensor rope_table(const LlamaConfig& c, Tensor (Tensor::*function)() const) {
  if (nn::UninitializedScope::active()) return Tensor::empty({c.context, c.head_dim() / 2});
  return nn::buffer((angles(c).*function)());
}

Tensor cache(const LlamaConfig& c) {
  return nn::buffer(Tensor::zeros({1, c.kv_heads, c.context, c.head_dim()}));
}

// Which positions the tokens from `position` on may look at: (time, position + time), true at and before
// their own.
Tensor causal_mask(const Size& position, const Size& time) {
  const Tensor own = Tensor::arange(time, {}).reshape({time, 1}).add(position);
  return Tensor::arange(position + time, {}).reshape({1, position + time}) <= own;
}

}  // namespace

Rope::Rope(const LlamaConfig& c) : cos(rope_table(c, &Tensor::cos)), sin(rope_table(c, &Tensor::sin)) {}

Tensor Rope::operator()(const Tensor& x, const Size& position) const {
  const Slice rows{position, position + x.size(2)};
  const Tensor c = cos.getitem({rows}), s = sin.getitem({rows});
  const std::vector<Tensor> half = x.chunk(2, -1);
  // The tables have 32 bits whatever the weights have.
  return (half[0] * c - half[1] * s).cat(half[1] * c + half[0] * s, -1).cast(x.dtype());
}

LlamaBlock::LlamaBlock(const LlamaConfig& c)
    : attention_norm(c.dim, c.eps),
      feed_norm(c.dim, c.eps),
      query(c.dim, c.dim, false),
      key(c.dim, c.kv_heads * c.head_dim(), false),
      value(c.dim, c.kv_heads * c.head_dim(), false),
      out(c.dim, c.dim, false),
      gate(c.dim, c.feed_forward, false),
      up(c.dim, c.feed_forward, false),
      down(c.feed_forward, c.dim, false),
      key_cache(cache(c)),
      value_cache(cache(c)),
      heads(c.heads),
      kv_heads(c.kv_heads) {}

Tensor LlamaBlock::attend(const Tensor& x, const Rope& rope, const Size& position) {
  const Size time = x.size(1), end = position + time;
  const Tensor q = rope(nn::split_heads(query(x), heads), position);
  key_cache.setitem({Slice{}, Slice{}, Slice{position, end}},
                    rope(nn::split_heads(key(x), kv_heads), position));
  value_cache.setitem({Slice{}, Slice{}, Slice{position, end}}, nn::split_heads(value(x), kv_heads));
  const Tensor keys = key_cache.getitem({Slice{}, Slice{}, Slice{0, end}});
  const Tensor values = value_cache.getitem({Slice{}, Slice{}, Slice{0, end}});
  // A single token may look at everything that is there.
  const Tensor mask = time == 1 ? Tensor() : causal_mask(position, time);
  const Tensor mixed = q.scaled_dot_product_attention(
      keys, values, {.mask = mask.defined() ? &mask : nullptr, .gqa = heads != kv_heads});
  return out(nn::join_heads(mixed).cast(x.dtype()));  // the caches have 32 bits, too
}

Tensor LlamaBlock::fed(const Tensor& attended) const {
  const Tensor normed = feed_norm(attended);
  return attended + down(gate(normed).silu() * up(normed));
}

Tensor LlamaBlock::operator()(const Tensor& x, const Rope& rope, const Size& position) {
  return fed(x + attend(attention_norm(x), rope, position));
}

Tensor LlamaBlock::whole(const Tensor& x, const Rope& rope) const {
  const Tensor seen = attention_norm(x);
  const Tensor q = rope(nn::split_heads(query(seen), heads), 0),
               k = rope(nn::split_heads(key(seen), kv_heads), 0), v = nn::split_heads(value(seen), kv_heads);
  return fed(x + out(nn::join_heads(
                     q.scaled_dot_product_attention(k, v, {.causal = true, .gqa = heads != kv_heads}))));
}

void LlamaBlock::parts(nn::Parts& p) {
  p("input_layernorm", attention_norm)("self_attn.q_proj", query)("self_attn.k_proj", key);
  p("self_attn.v_proj", value)("self_attn.o_proj", out)("post_attention_layernorm", feed_norm);
  p("mlp.gate_proj", gate)("mlp.up_proj", up)("mlp.down_proj", down);
}

Llama::Llama(const LlamaConfig& c)
    : config(checked(c)), tokens_table(c.vocabulary, c.dim), norm(c.dim, c.eps), rope(c) {
  for (std::int64_t i = 0; i < c.layers; ++i) blocks.emplace_back(c);
  if (!c.tied) head = nn::Linear(c.dim, c.vocabulary, false).weight;
}

Tensor Llama::operator()(const Tensor& tokens, const Size& position) {
  if (tokens.ndim() != 2 || !(tokens.size(0) == 1))
    throw UserError("Llama",
                    fmt::format("tokens have shape {}, (1, time) is needed", to_string(tokens.shape())));
  Tensor x = tokens_table(tokens);
  for (LlamaBlock& block : blocks) x = block(x, rope, position);
  const Tensor last = norm(x.getitem({Slice{}, tokens.size(1) - 1}));
  return last.linear((config.tied ? tokens_table.weight : head).transpose());
}

Tensor Llama::scores(const Tensor& tokens) const {
  if (tokens.ndim() != 2 || tokens.size(1).max() > config.context)
    throw UserError("Llama", fmt::format("tokens have shape {}, (batch, up to {}) is needed",
                                         to_string(tokens.shape()), config.context));
  Tensor x = tokens_table(tokens);
  for (const LlamaBlock& block : blocks) x = block.whole(x, rope);
  return norm(x).linear((config.tied ? tokens_table.weight : head).transpose());
}

Tensor Llama::loss(const Tensor& tokens, const Tensor& targets) const {
  return scores(tokens).flatten(0, 1).sparse_categorical_crossentropy(targets.flatten());
}

void Llama::parts(nn::Parts& p) {
  p("model.embed_tokens", tokens_table)("model.layers", blocks)("model.norm", norm)("lm_head.weight", head);
}

std::vector<Tensor> Llama::caches() const {
  std::vector<Tensor> all;
  for (const LlamaBlock& block : blocks) {
    all.push_back(block.key_cache);
    all.push_back(block.value_cache);
  }
  return all;
}

}  // namespace lathe::models
