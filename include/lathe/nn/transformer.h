// PyTorch's transformer layers, with its names, defaults and packed weights, so that its state dicts can be
// loaded. (nn::MultiHeadAttention and nn::TransformerBlock are simpler.)
#pragma once

#include "lathe/nn/layers.h"
#include "lathe/nn/normalization.h"

namespace lathe::nn {

struct AttentionMasks {
  const Tensor* attention =
      nullptr;                      // (time, context): bool, true: do not attend; or a float added to scores
  const Tensor* padding = nullptr;  // (batch, context), bool: true where the context is padding
  bool causal = false;
};

// torch.nn.MultiheadAttention: one matrix holds the three input projections.
struct MultiheadAttention : Module {
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, double dropout = 0,
                     bool with_bias = true, bool batch_first = false);
  // (time, batch, dim), or (batch, time, dim) where batch_first.
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionMasks& masks = {}) const;
  void parts(Parts& p) override;

  Tensor in_proj_weight, in_proj_bias;  // (3 * dim, dim), (3 * dim) or not defined
  Linear out_proj;
  std::int64_t num_heads;
  double dropout;
  bool batch_first;
};

struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  Tensor (*activation)(const Tensor&) = [](const Tensor& x) { return x.relu(); };
  double layer_norm_eps = 1e-5;
  bool batch_first = false, norm_first = false;
};

// torch.nn.TransformerEncoderLayer: self-attention and a two-layer net.
struct TransformerEncoderLayer : Module {
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {}) const;
  void parts(Parts& p) override;

  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  TransformerLayerOptions options;
};

// torch.nn.TransformerDecoderLayer: the same, with cross-attention to the encoder's result between the two.
struct TransformerDecoderLayer : Module {
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerLayerOptions& options = {});
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionMasks& masks = {},
                    const AttentionMasks& memory_masks = {}) const;
  void parts(Parts& p) override;

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  TransformerLayerOptions options;
};

}  // namespace lathe::nn
