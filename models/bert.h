// BERT: transformer blocks that look both ways, with the two heads it is trained with: guessing hidden words
// and whether the second sentence follows the first. Tensors are named as in the published files.
#pragma once

#include "lathe/nn.h"

namespace lathe::models {

// The default is BERT base, 110 million parameters.
struct BertConfig {
  std::int64_t vocabulary = 30522, context = 512, segments = 2, layers = 12, heads = 12, dim = 768,
               feed_forward = 3072;
  double eps = 1e-12, dropout = 0.1;
};

struct BertLayer : nn::Module {
  explicit BertLayer(const BertConfig& config);
  Tensor operator()(const Tensor& x, const Tensor* mask) const;
  void parts(nn::Parts& p) override;

  nn::MultiHeadAttention attention;
  nn::LayerNorm attention_norm, output_norm;
  nn::Linear up, down;
  double dropout;
};

struct Bert : nn::Module {
  explicit Bert(const BertConfig& config = {});
  // tokens, segments: (batch, time) integers; mask: (batch, time) bool, true where there is a word, or null.
  Tensor encode(const Tensor& tokens, const Tensor& segments, const Tensor* mask = nullptr) const;
  Tensor word_logits(const Tensor& encoded) const;      // (batch, time, vocabulary)
  Tensor sentence_logits(const Tensor& encoded) const;  // (batch, 2)
  // The sum of both losses. Words that were not hidden have the target -100; follows is (batch) of 0 and 1.
  Tensor loss(const Tensor& tokens, const Tensor& segments, const Tensor& words, const Tensor& follows) const;
  void parts(nn::Parts& p) override;

  BertConfig config;
  nn::Embedding word, position, segment;
  nn::LayerNorm embedding_norm;
  std::vector<BertLayer> layers;
  nn::Linear pooler, transform, relationship;
  nn::LayerNorm transform_norm;
  Tensor word_bias;  // (vocabulary); the weight is the word table
};

}  // namespace lathe::models
