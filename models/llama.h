// Llama: causal transformer blocks with rotary positions, grouped key and value heads, a gated feed-forward
// net and a cache of the keys and values of earlier tokens. The position is a Size: given as a bound
// Variable, one set of kernels serves every position.
#pragma once

#include "lathe/nn.h"

namespace lathe::models {

// The default is the published size of one billion parameters.
struct LlamaConfig {
  std::int64_t vocabulary = 128256, dim = 2048, feed_forward = 8192, layers = 16, heads = 32, kv_heads = 8,
               context = 4096;
  double rope_theta = 500000, eps = 1e-5;
  bool tied = true;  // the output layer is the token table

  std::int64_t head_dim() const { return dim / heads; }
};

// Where in the sequence the tokens are, as the angles their features are turned by.
struct Rope {
  explicit Rope(const LlamaConfig& config);
  // x: (batch, heads, time, head_dim), whose first moment is `position`. The first half of the features is
  // turned against the second.
  Tensor operator()(const Tensor& x, const Size& position) const;

  Tensor cos, sin;  // (context, head_dim / 2)
};

struct LlamaBlock : nn::Module {
  explicit LlamaBlock(const LlamaConfig& config);
  Tensor operator()(const Tensor& x, const Rope& rope, const Size& position);
  // Whole texts from their beginning, without the caches.
  Tensor whole(const Tensor& x, const Rope& rope) const;
  void parts(nn::Parts& p) override;

  nn::RMSNorm attention_norm, feed_norm;
  nn::Linear query, key, value, out;
  nn::Linear gate, up, down;
  Tensor key_cache, value_cache;  // (1, kv_heads, context, head_dim)
  std::int64_t heads, kv_heads;

 private:
  Tensor attend(const Tensor& x, const Rope& rope, const Size& position);
  Tensor fed(const Tensor& attended) const;
};

struct Llama : nn::Module {
  explicit Llama(const LlamaConfig& config = {});
  // The next tokens of one sequence, (1, time), of which `position` were given before: the logits behind the
  // last one, (1, vocabulary). Fills the caches.
  Tensor operator()(const Tensor& tokens, const Size& position);
  // To train: whole texts, (batch, time) -> (batch, time, vocabulary). The caches are not touched.
  Tensor scores(const Tensor& tokens) const;
  Tensor loss(const Tensor& tokens, const Tensor& targets) const;  // mean over all positions
  void parts(nn::Parts& p) override;
  // The caches of all blocks: what a step changes.
  std::vector<Tensor> caches() const;

  LlamaConfig config;
  nn::Embedding tokens_table;
  std::vector<LlamaBlock> blocks;
  nn::RMSNorm norm;
  Tensor head;  // (vocabulary, dim), or not defined where tied
  Rope rope;
};

}  // namespace lathe::models
