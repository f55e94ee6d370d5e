// Multi-head attention, and the transformer block built on it.
#pragma once

#include "lathe/nn/layers.h"
#include "lathe/nn/normalization.h"

namespace lathe::nn {

// (batch, time, heads * d) -> (batch, heads, time, d), and back.
Tensor split_heads(const Tensor& x, std::int64_t heads);
Tensor join_heads(const Tensor& x);

struct MultiHeadAttention : Module {
  MultiHeadAttention(std::int64_t dim, std::int64_t heads, bool with_bias = true, double dropout = 0);
  // Self-attention: every position of x (batch, time, dim) attends to all positions, or with `causal` to
  // itself and earlier ones.
  Tensor operator()(const Tensor& x, bool causal = false, const Tensor* mask = nullptr) const {
    return attend(x, x, causal, mask);
  }
  // Cross-attention: every position of x attends to all positions of `context`.
  Tensor attend(const Tensor& x, const Tensor& context, bool causal = false,
                const Tensor* mask = nullptr) const;
  void parts(Parts& p) override { p("query", query)("key", key)("value", value)("out", out); }

  Linear query, key, value, out;
  std::int64_t heads;
  double dropout;
};

struct TransformerOptions {
  bool norm_first = true;  // x + f(norm(x)); otherwise norm(x + f(x))
  bool causal = false;
  double dropout = 0;
  Tensor (*activation)(const Tensor&) = [](const Tensor& x) { return x.gelu(); };
};

// Attention and a two-layer net, each with normalization and a residual connection.
struct TransformerBlock : Module {
  TransformerBlock(std::int64_t dim, std::int64_t heads, std::int64_t feed_forward,
                   const TransformerOptions& options = {});
  Tensor operator()(const Tensor& x, const Tensor* mask = nullptr) const;
  void parts(Parts& p) override {
    p("attention", attention)("norm1", norm1)("norm2", norm2)("up", up)("down", down);
  }

  MultiHeadAttention attention;
  LayerNorm norm1, norm2;
  Linear up, down;
  TransformerOptions options;
};

}  // namespace lathe::nn
