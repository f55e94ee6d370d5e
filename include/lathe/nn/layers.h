// Layers with weights (linear, convolutions, embedding) and dropout. Each is a callable with its tensors as
// public members, named and shaped as in PyTorch, so that its model files can be loaded. Initial values are
// uniform in [-b, b] with b = 1/sqrt(inputs per output).
#pragma once

#include "lathe/nn/module.h"

namespace lathe::nn {

struct Linear : Module {
  Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias = true);
  Tensor operator()(const Tensor& x) const;  // (..., in) -> (..., out)
  void parts(Parts& p) override { p("weight", weight)("bias", bias); }

  Tensor weight;  // (out, in)
  Tensor bias;    // (out), or not defined
};

// The common part of the convolutions over one and two axes.
struct Convolution : Module {
  Tensor operator()(const Tensor& x) const;  // (batch, in, ...) -> (batch, out, ...)
  void parts(Parts& p) override { p("weight", weight)("bias", bias); }

  Tensor weight;  // (out, in / groups, kernel...)
  Tensor bias;    // (out), or not defined
  ConvOptions options;

 protected:
  Convolution(std::int64_t in_channels, std::int64_t out_channels, const std::vector<std::int64_t>& kernel,
              const ConvOptions& options, bool with_bias);
};

struct Conv1d : Convolution {
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
         const ConvOptions& options = {}, bool with_bias = true);
};

struct Conv2d : Convolution {
  Conv2d(std::int64_t in_channels, std::int64_t out_channels,
         const Ints& kernel,  // one size for both axes, or two
         const ConvOptions& options = {}, bool with_bias = true);
};

// The common part of the transposed convolutions.
struct TransposedConvolution : Module {
  Tensor operator()(const Tensor& x) const;
  void parts(Parts& p) override { p("weight", weight)("bias", bias); }

  Tensor weight;  // (in, out / groups, kernel...)
  Tensor bias;    // (out), or not defined
  ConvTransposeOptions options;

 protected:
  TransposedConvolution(std::int64_t in_channels, std::int64_t out_channels,
                        const std::vector<std::int64_t>& kernel, const ConvTransposeOptions& options,
                        bool with_bias);
};

struct ConvTranspose1d : TransposedConvolution {
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
                  const ConvTransposeOptions& options = {}, bool with_bias = true);
};

struct ConvTranspose2d : TransposedConvolution {
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, const Ints& kernel,
                  const ConvTransposeOptions& options = {}, bool with_bias = true);
};

struct Embedding : Module {
  Embedding(std::int64_t vocabulary, std::int64_t dim);
  Tensor operator()(const Tensor& index) const;  // (...) integers -> (..., dim)
  void parts(Parts& p) override { p("weight", weight); }

  Tensor weight;  // (vocabulary, dim)
};

// In training, zeroes elements with probability p and scales the rest by 1/(1-p).
struct Dropout : Module {
  explicit Dropout(double p = 0.5);
  Tensor operator()(const Tensor& x) const {
    const ModeScope mode(*this);
    return x.dropout(p);
  }
  void parts(Parts&) override {}

  double p;
};

}  // namespace lathe::nn
