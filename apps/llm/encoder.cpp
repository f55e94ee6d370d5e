#include "lathe/llm/encoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/llm/blocks.h"
#include "lathe/error.h"

namespace lathe::llm {

namespace {

constexpr std::string_view kOp = "Encoder";

Tensor attention(const Checkpoint& c, const Tensor& x, const Tensor& seen, const std::string& block) {
  const ModelConfig& config = c.config;
  const auto split = [&](const char* name) {
    return product(c, x, block + name)
        .reshape({x.size(0), x.size(1), config.heads, config.head_dim})
        .transpose(1, 2);
  };
  const Tensor mixed = split("attn_q").scaled_dot_product_attention(
      split("attn_k"), split("attn_v"), {.mask = &seen, .scale = config.attention_scale});
  return product(c, mixed.transpose(1, 2).flatten(2), block + "attn_output");
}

std::int64_t smallest_power_from(std::int64_t n, std::int64_t least) {
  std::int64_t power = least;
  while (power < n) power *= 2;
  return power;
}

}  // namespace

Encoder::Encoder(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {
  const ModelConfig& c = checkpoint_.config;
  if (c.causal || c.residual != Residual::NormAfter || c.positions != Positions::Learned ||
      c.kv_heads != c.heads)
    throw UserError(kOp, fmt::format("{} is no encoder", c.architecture))
        .help("encoders are of the architecture bert");
  device_ = checkpoint_.weight("token_embd.weight").device();
  const NoGradScope plain;
  checkpoint_.realize();
}

Tensor Encoder::features(const Tensor& tokens, const Tensor& mask) const {
  const Checkpoint& c = checkpoint_;
  if (tokens.ndim() != 2 || tokens.size(1).max() > c.config.context)
    throw UserError(kOp, fmt::format("tokens have shape {}, (batch, up to {}) is needed",
                                     to_string(tokens.shape()), c.config.context));
  Tensor x = c.weight("token_embd.weight").to_float().embedding(tokens);
  x = x + c.weight("position_embd.weight").shrink({{0, tokens.size(1)}, {0, c.config.dim}});
  if (c.has("token_types.weight")) x = x + c.weight("token_types.weight")[0];  // one sentence
  x = normed(c, x, "token_embd_norm");
  const Tensor seen = mask.reshape({mask.size(0), 1, 1, mask.size(1)});
  for (std::int64_t i = 0; i < c.config.layers; ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    x = normed(c, x + attention(c, x, seen, block), block + "attn_output_norm");
    x = normed(c, x + feed(c, x, block), block + "layer_output_norm");
  }
  return x;
}

Tensor Encoder::pooled(const Tensor& features, const Tensor& mask) const {
  const Tensor there = mask.to_float().unsqueeze(-1);
  if (checkpoint_.config.pooling == Pooling::First) return features.getitem({Slice{}, 0});
  if (checkpoint_.config.pooling == Pooling::Last) {
    // One where the next position is empty.
    const Tensor after =
        there.pad({{0, 0}, {0, 1}, {0, 0}}).shrink({{0, there.size(0)}, {1, there.size(1) + 1}, {0, 1}});
    return (features * (there - after)).sum({1});
  }
  return (features * there).sum({1}) / there.sum({1});
}

std::vector<std::vector<float>> Encoder::embed(std::span<const std::vector<TokenId>> texts,
                                               bool unit_length) const {
  if (texts.empty()) return {};
  const ModelConfig& c = checkpoint_.config;
  std::size_t longest = 1;
  for (const std::vector<TokenId>& text : texts) {
    if (text.empty()) throw UserError(kOp, "a text of no tokens has no features");
    for (const TokenId id : text)
      if (id < 0 || id >= c.vocabulary)
        throw UserError(kOp, fmt::format("token {} of a vocabulary of {}", id, c.vocabulary));
    longest = std::max(longest, text.size());
  }
  if (static_cast<std::int64_t>(longest) > c.context)
    throw UserError(kOp, fmt::format("a text of {} tokens, and the model reads {}", longest, c.context))
        .help("split the text");
  constexpr std::int64_t kShortest = 16;
  const std::int64_t time = std::min(smallest_power_from(static_cast<std::int64_t>(longest), kShortest),
                                     c.context),
                     batch = smallest_power_from(static_cast<std::int64_t>(texts.size()), 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(batch * time));
  std::vector<std::uint8_t> mask(tokens.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch); ++i) {
    const std::vector<TokenId>& text = texts[std::min(i, texts.size() - 1)];  // the last again fills up
    std::copy(text.begin(), text.end(), tokens.begin() + static_cast<std::ptrdiff_t>(i) * time);
    std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(i) * time, text.size(), std::uint8_t{1});
  }
  const NoGradScope plain;
  const Shape shape{batch, time};
  const Tensor there = Tensor(mask, shape, {.device = device_}).to_bool();
  Tensor vectors = pooled(features(Tensor(tokens, shape, {.device = device_}), there), there);
  if (unit_length) vectors = vectors.normalize(2, 1);
  const std::vector<float> all = vectors.to_float().data<float>();
  std::vector<std::vector<float>> out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i) * c.dim;
    out.emplace_back(begin, begin + c.dim);
  }
  return out;
}

std::vector<std::vector<float>> Encoder::embed(const std::vector<std::string>& texts,
                                               bool unit_length) const {
  if (!checkpoint_.tokenizer)
    throw UserError(kOp, "the model came without a tokenizer").help("LoadOptions::tokenizer");
  std::vector<std::vector<TokenId>> ids;
  for (const std::string& text : texts) ids.push_back(checkpoint_.tokenizer->encode(text));
  return embed(ids, unit_length);
}

}  // namespace lathe::llm
