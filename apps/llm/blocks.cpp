#include "apps/llm/blocks.h"

#include <fmt/format.h>

#include "lathe/state.h"

namespace lathe::llm {

Tensor product(const Checkpoint& c, const Tensor& rows, const std::string& name) {
  const auto packed = c.packed.find(name + ".weight");
  if (c.byte_activations && packed != c.packed.end() && state::gguf_has_byte_product(packed->second.type)) {
    const Checkpoint::Packed& matrix = packed->second;
    const Tensor out = state::gguf_byte_product(matrix.type, matrix.blocks, rows, matrix.parts);
    return c.has(name + ".bias") ? out + c.weight(name + ".bias") : out;
  }
  const Tensor weight = c.weight(name + ".weight").transpose();
  return c.has(name + ".bias") ? rows.linear(weight, &c.weight(name + ".bias")) : rows.linear(weight);
}

Tensor normed(const Checkpoint& c, const Tensor& x, const std::string& name) {
  if (!c.has(name + ".weight")) return x;
  const Tensor& weight = c.weight(name + ".weight");
  const Tensor wide = x.to_float();
  const Tensor scaled = c.config.norm == Norm::RMS
                            ? wide * (wide.square().mean(-1, true) + c.config.eps).rsqrt() * weight
                            : wide.layernorm(-1, c.config.eps) * weight;
  return c.has(name + ".bias") ? scaled + c.weight(name + ".bias") : scaled;
}

Tensor activated(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::Silu: return x.silu();
    case Activation::Gelu: return x.gelu("none");
    case Activation::GeluTanh: return x.gelu("tanh");
    case Activation::Relu: return x.relu();
  }
  return x;
}

Tensor capped(const Tensor& x, double cap) { return cap > 0 ? (x / cap).tanh() * cap : x; }

namespace {

// x: (rows, used or 1, in), each times the matrix of the expert that its row chose: (rows, used, out).
Tensor expert_product(const Checkpoint& c, const Tensor& x, const Tensor& chosen, const std::string& name) {
  const Tensor matrices = c.weight(name + ".weight").getitem({chosen});  // (rows, used, out, in)
  return (matrices * x.unsqueeze(2)).sum(-1);
}

Tensor feed_by_experts(const Checkpoint& c, const Tensor& rows, const std::string& block) {
  const ModelConfig& config = c.config;
  const Tensor shares = product(c, rows, block + "ffn_gate_inp").softmax(-1);
  const auto [share, chosen] = shares.topk(config.experts_used, -1);
  const Tensor weight = config.expert_weights_sum_to_one ? share / share.sum(-1, true) : share;
  const Tensor x = rows.unsqueeze(1);
  const Tensor up = expert_product(c, x, chosen, block + "ffn_up_exps");
  const Tensor wide =
      config.gated ? activated(config.activation, expert_product(c, x, chosen, block + "ffn_gate_exps")) * up
                   : activated(config.activation, up);
  return (expert_product(c, wide, chosen, block + "ffn_down_exps") * weight.unsqueeze(-1)).sum(1);
}

}  // namespace

Tensor feed(const Checkpoint& c, const Tensor& rows, const std::string& block) {
  if (c.config.experts > 0) return feed_by_experts(c, rows, block);
  // A kernel with two products walks over both matrices at once, which is slower than one after the other.
  const Tensor up = product(c, rows, block + "ffn_up").contiguous();
  const Tensor wide = c.config.gated
                          ? activated(c.config.activation, product(c, rows, block + "ffn_gate")) * up
                          : activated(c.config.activation, up);
  return product(c, wide, block + "ffn_down");
}

Angles angles_at(const Rotary& rotary, const Tensor& positions) {
  const auto pairs = static_cast<std::int64_t>(rotary.frequencies.size());
  const Tensor frequencies =
      Tensor(rotary.frequencies, {.device = positions.device()}).reshape({1, 1, pairs});
  const Tensor angles = positions.to_float().reshape({-1, 1, 1}) * frequencies;
  return {(angles.cos() * rotary.scale).contiguous(), (angles.sin() * rotary.scale).contiguous()};
}

Tensor turned(const Rotary& rotary, const Tensor& x, const Angles& angles) {
  const auto pairs = static_cast<std::int64_t>(rotary.frequencies.size());
  if (pairs == 0) return x;
  const Tensor part = x.getitem({kEllipsis, Slice{0, 2 * pairs}});
  // Pairs are neighbours, or the two halves.
  const std::int64_t apart = rotary.interleaved ? 3 : 2;
  const Tensor two = part.unflatten(2, rotary.interleaved ? Shape{pairs, 2} : Shape{2, pairs});
  const std::vector<Tensor> half = two.chunk(2, apart);
  const Tensor a = half[0].squeeze(apart), b = half[1].squeeze(apart);
  const Tensor both =
      Tensor::stack({a * angles.cos - b * angles.sin, b * angles.cos + a * angles.sin}, apart);
  const Tensor out = both.flatten(2);
  if (2 * pairs == x.size(2).value()) return out;
  return out.cat(x.getitem({kEllipsis, Slice{2 * pairs, {}}}), 2);
}

Tensor heads_of(const Checkpoint& c, const Tensor& rows, const std::string& name, std::int64_t heads) {
  const ModelConfig& config = c.config;
  Tensor x = product(c, rows, name);
  if (config.qk_norm == QkNorm::All) x = normed(c, x, name + "_norm");
  x = x.reshape({x.size(0), heads, config.head_dim});
  return config.qk_norm == QkNorm::PerHead ? normed(c, x, name + "_norm") : x;
}

Tensor through_block(const Checkpoint& c, const Tensor& rows, const std::string& block,
                     const std::function<Tensor(const Tensor& rows)>& attend) {
  if (c.config.residual == Residual::NormAfter) {
    const Tensor x = normed(c, rows + attend(rows), block + "attn_output_norm");
    return normed(c, x + feed(c, x, block), block + "layer_output_norm");
  }
  const Tensor seen = normed(c, rows, block + "attn_norm");
  const Tensor x = rows + normed(c, attend(seen), block + "post_attention_norm");
  const bool parallel = c.config.residual == Residual::Parallel;
  const Tensor fed = feed(c, parallel ? seen : normed(c, x, block + "ffn_norm"), block);
  return x + normed(c, fed, block + "post_ffw_norm");
}

Tensor embedded(const Checkpoint& c, const Tensor& tokens, const Tensor& positions) {
  Tensor x = c.weight("token_embd.weight").getitem({tokens}).to_float();
  if (c.config.embedding_scale != 1) x = x * c.config.embedding_scale;
  if (c.config.positions == Positions::Learned) x = x + c.weight("position_embd.weight").getitem({positions});
  return x.contiguous();  // a few rows: no product that they are added to has to decode them
}

Tensor logits_of(const Checkpoint& c, const Tensor& rows) {
  const Tensor raw = product(c, rows, c.config.tied ? "token_embd" : "output");
  return capped(c.config.logit_scale == 1 ? raw : raw * c.config.logit_scale, c.config.logit_softcap)
      .to_float();
}

}  // namespace lathe::llm
