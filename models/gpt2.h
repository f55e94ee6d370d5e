// GPT-2: a stack of causal transformer blocks over tokens, whose output layer is the token table itself.
#pragma once

#include "lathe/nn.h"

namespace lathe::models {

// The default is the smallest published size, 124 million parameters.
struct GPT2Config {
  std::int64_t vocabulary = 50257, context = 1024, layers = 12, heads = 12, dim = 768;
};

struct GPT2Block : nn::Module {
  explicit GPT2Block(const GPT2Config& config);
  Tensor operator()(const Tensor& x) const;
  void parts(nn::Parts& p) override;

  nn::LayerNorm ln_1, ln_2;
  nn::Linear attention, attention_out;  // query, key and value are one product
  nn::Linear up, down;
  std::int64_t heads;
};

struct GPT2 : nn::Module {
  explicit GPT2(const GPT2Config& config = {});
  Tensor operator()(const Tensor& tokens) const;  // (batch, time) -> (batch, time, vocabulary)
  Tensor loss(const Tensor& tokens, const Tensor& targets) const;  // mean over all positions
  void parts(nn::Parts& p) override {
    p("wte", tokens_table)("wpe", positions_table)("h", blocks)("ln_f", ln_f);
  }

  GPT2Config config;
  nn::Embedding tokens_table, positions_table;
  std::vector<GPT2Block> blocks;
  nn::LayerNorm ln_f;
};

}  // namespace lathe::models
