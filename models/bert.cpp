#include "models/bert.h"

#include <fmt/format.h>

namespace lathe::models {

BertLayer::BertLayer(const BertConfig& c)
    : attention(c.dim, c.heads, true, c.dropout),
      attention_norm(c.dim, c.eps),
      output_norm(c.dim, c.eps),
      up(c.dim, c.feed_forward),
      down(c.feed_forward, c.dim),
      dropout(c.dropout) {}

Tensor BertLayer::operator()(const Tensor& x, const Tensor* mask) const {
  const Tensor mixed = attention_norm(x + attention(x, false, mask).dropout(dropout));
  return output_norm(mixed + down(up(mixed).gelu("none")).dropout(dropout));
}

void BertLayer::parts(nn::Parts& p) {
  p("attention.self.query", attention.query)("attention.self.key", attention.key);
  p("attention.self.value", attention.value)("attention.output.dense", attention.out);
  p("attention.output.LayerNorm", attention_norm)("intermediate.dense", up);
  p("output.dense", down)("output.LayerNorm", output_norm);
}

Bert::Bert(const BertConfig& c)
    : config(c),
      word(c.vocabulary, c.dim),
      position(c.context, c.dim),
      segment(c.segments, c.dim),
      embedding_norm(c.dim, c.eps),
      pooler(c.dim, c.dim),
      transform(c.dim, c.dim),
      relationship(c.dim, 2),
      transform_norm(c.dim, c.eps),
      word_bias(nn::parameter(Tensor::zeros({c.vocabulary}))) {
  for (std::int64_t i = 0; i < c.layers; ++i) layers.emplace_back(c);
}

Tensor Bert::encode(const Tensor& tokens, const Tensor& segments, const Tensor* mask) const {
  if (tokens.ndim() != 2 || tokens.size(1).max() > config.context)
    throw UserError("Bert", fmt::format("tokens have shape {}, (batch, up to {}) is needed",
                                        to_string(tokens.shape()), config.context));
  const Tensor places = position.weight.shrink({{0, tokens.size(1)}, {0, config.dim}});
  Tensor x = embedding_norm(word(tokens) + places + segment(segments)).dropout(config.dropout);
  // One row of the mask serves all heads and all positions that look.
  const Tensor wide = mask == nullptr ? Tensor() : mask->reshape({mask->size(0), 1, 1, mask->size(1)});
  for (const BertLayer& layer : layers) x = layer(x, mask == nullptr ? nullptr : &wide);
  return x;
}

Tensor Bert::word_logits(const Tensor& encoded) const {
  return transform_norm(transform(encoded).gelu("none")).linear(word.weight.transpose(), &word_bias);
}

Tensor Bert::sentence_logits(const Tensor& encoded) const {
  return relationship(pooler(encoded.getitem({Slice{}, 0})).tanh());
}

Tensor Bert::loss(const Tensor& tokens, const Tensor& segments, const Tensor& words,
                  const Tensor& follows) const {
  constexpr std::int64_t kNotHidden = -100;
  const Tensor encoded = encode(tokens, segments);
  return word_logits(encoded).flatten(0, 1).sparse_categorical_crossentropy(words.flatten(), kNotHidden) +
         sentence_logits(encoded).sparse_categorical_crossentropy(follows);
}

void Bert::parts(nn::Parts& p) {
  p("bert.embeddings.word_embeddings", word)("bert.embeddings.position_embeddings", position);
  p("bert.embeddings.token_type_embeddings", segment)("bert.embeddings.LayerNorm", embedding_norm);
  p("bert.encoder.layer", layers)("bert.pooler.dense", pooler);
  p("cls.predictions.transform.dense", transform)("cls.predictions.transform.LayerNorm", transform_norm);
  p("cls.predictions.bias", word_bias)("cls.seq_relationship", relationship);
}

}  // namespace lathe::models
