// The text encoder of CLIP, which tells Stable Diffusion what to draw; named as Hugging Face's files.
#pragma once

#include "lathe/nn.h"

namespace lathe::models {

// The default is that of Stable Diffusion 1.
struct ClipTextConfig {
  std::int64_t vocabulary = 49408, context = 77, layers = 12, heads = 12, dim = 768;
};

struct ClipLayer : nn::Module {
  explicit ClipLayer(const ClipTextConfig& config);
  Tensor operator()(const Tensor& x) const;
  void parts(nn::Parts& p) override;

  nn::LayerNorm norm1, norm2;
  nn::MultiHeadAttention attention;
  nn::Linear up, down;
};

struct ClipText : nn::Module {
  explicit ClipText(const ClipTextConfig& config = {});
  Tensor operator()(const Tensor& tokens) const;  // (batch, time) -> (batch, time, dim)
  void parts(nn::Parts& p) override;

  ClipTextConfig config;
  nn::Embedding token, position;
  std::vector<ClipLayer> layers;
  nn::LayerNorm final_norm;
};

}  // namespace lathe::models
