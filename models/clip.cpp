#include "models/clip.h"

#include <fmt/format.h>

namespace lathe::models {

ClipLayer::ClipLayer(const ClipTextConfig& c)
    : norm1(c.dim), norm2(c.dim), attention(c.dim, c.heads), up(c.dim, 4 * c.dim), down(4 * c.dim, c.dim) {}

Tensor ClipLayer::operator()(const Tensor& x) const {
  const Tensor attended = x + attention(norm1(x), true);
  const Tensor wide = up(norm2(attended));
  return attended + down(wide * (wide * 1.702).sigmoid());
}

void ClipLayer::parts(nn::Parts& p) {
  p("layer_norm1", norm1)("self_attn.q_proj", attention.query)("self_attn.k_proj", attention.key);
  p("self_attn.v_proj", attention.value)("self_attn.out_proj", attention.out);
  p("layer_norm2", norm2)("mlp.fc1", up)("mlp.fc2", down);
}

ClipText::ClipText(const ClipTextConfig& c)
    : config(c), token(c.vocabulary, c.dim), position(c.context, c.dim), final_norm(c.dim) {
  for (std::int64_t i = 0; i < c.layers; ++i) layers.emplace_back(c);
}

Tensor ClipText::operator()(const Tensor& tokens) const {
  if (tokens.ndim() != 2 || tokens.size(1).max() > config.context)
    throw UserError("ClipText", fmt::format("tokens have shape {}, (batch, up to {}) is needed",
                                            to_string(tokens.shape()), config.context));
  Tensor x = token(tokens) + position.weight.shrink({{0, tokens.size(1)}, {0, config.dim}});
  for (const ClipLayer& layer : layers) x = layer(x);
  return final_norm(x);
}

void ClipText::parts(nn::Parts& p) {
  p("text_model.embeddings.token_embedding", token)("text_model.embeddings.position_embedding", position);
  p("text_model.encoder.layers", layers)("text_model.final_layer_norm", final_norm);
}

}  // namespace lathe::models
