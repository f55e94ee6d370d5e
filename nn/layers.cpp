#include "lathe/nn/layers.h"

#include <fmt/format.h>

#include <cmath>

#include "nn/initial.h"

namespace lathe::nn {
namespace {

const Tensor* or_null(const Tensor& bias) { return bias.defined() ? &bias : nullptr; }

// A kernel's sizes for two axes.
std::vector<std::int64_t> both_axes(const Ints& kernel, std::string_view layer) {
  if (kernel.size() == 1) return {kernel[0], kernel[0]};
  if (kernel.size() == 2) return kernel.values();
  throw UserError(layer, fmt::format("the kernel has {} sizes", kernel.size())).help("give one size, or two");
}

struct ConvSizes {
  Shape weight;
  double bound;
};

// The weight of a convolution from `from` channels: (first, second / groups, kernel...).
ConvSizes conv_sizes(std::string_view layer, std::int64_t first, std::int64_t second, std::int64_t groups,
                     const std::vector<std::int64_t>& kernel) {
  check_positive(layer, "the number of channels", first);
  check_positive(layer, "the number of channels", second);
  check_positive(layer, "groups", groups);
  if (first % groups != 0 || second % groups != 0)
    throw UserError(layer,
                    fmt::format("{} and {} channels do not divide into {} groups", first, second, groups));
  ConvSizes sizes{{first, second / groups}, 0};
  std::int64_t inputs = second / groups;
  for (std::int64_t k : kernel) {
    check_positive(layer, "a kernel size", k);
    sizes.weight.push_back(k);
    inputs *= k;
  }
  sizes.bound = fan_in_bound(inputs);
  return sizes;
}

}  // namespace

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias) {
  check_positive("Linear", "in_features", in_features);
  check_positive("Linear", "out_features", out_features);
  const double bound = fan_in_bound(in_features);
  weight = uniform_parameter({out_features, in_features}, bound);
  if (with_bias) bias = uniform_parameter({out_features}, bound);
}

Tensor Linear::operator()(const Tensor& x) const {
  if (x.ndim() == 0 || !(x.size(-1) == weight.size(1)))
    throw UserError("Linear", fmt::format("the input has shape {}, its last size should be {}",
                                          to_string(x.shape()), weight.size(1).str()))
        .help(fmt::format("the layer is Linear({}, {}); flatten(1) joins the axes after the first",
                          weight.size(1).str(), weight.size(0).str()));
  return x.linear(weight.transpose(), or_null(bias));
}

Convolution::Convolution(std::int64_t in_channels, std::int64_t out_channels,
                         const std::vector<std::int64_t>& kernel, const ConvOptions& opts, bool with_bias)
    : options(opts) {
  const ConvSizes sizes = conv_sizes("Conv", out_channels, in_channels, opts.groups, kernel);
  weight = uniform_parameter(sizes.weight, sizes.bound);
  if (with_bias) bias = uniform_parameter({out_channels}, sizes.bound);
}

Tensor Convolution::operator()(const Tensor& x) const { return x.conv2d(weight, or_null(bias), options); }

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
               const ConvOptions& opts, bool with_bias)
    : Convolution(in_channels, out_channels, {kernel}, opts, with_bias) {}

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Ints& kernel,
               const ConvOptions& opts, bool with_bias)
    : Convolution(in_channels, out_channels, both_axes(kernel, "Conv2d"), opts, with_bias) {}

TransposedConvolution::TransposedConvolution(std::int64_t in_channels, std::int64_t out_channels,
                                             const std::vector<std::int64_t>& kernel,
                                             const ConvTransposeOptions& opts, bool with_bias)
    : options(opts) {
  const ConvSizes sizes = conv_sizes("ConvTranspose", in_channels, out_channels, opts.groups, kernel);
  weight = uniform_parameter(sizes.weight, sizes.bound);
  if (with_bias) bias = uniform_parameter({out_channels}, sizes.bound);
}

Tensor TransposedConvolution::operator()(const Tensor& x) const {
  return x.conv_transpose2d(weight, or_null(bias), options);
}

ConvTranspose1d::ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
                                 const ConvTransposeOptions& opts, bool with_bias)
    : TransposedConvolution(in_channels, out_channels, {kernel}, opts, with_bias) {}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, const Ints& kernel,
                                 const ConvTransposeOptions& opts, bool with_bias)
    : TransposedConvolution(in_channels, out_channels, both_axes(kernel, "ConvTranspose2d"), opts,
                            with_bias) {}

Embedding::Embedding(std::int64_t vocabulary, std::int64_t dim) {
  check_positive("Embedding", "vocabulary", vocabulary);
  check_positive("Embedding", "dim", dim);
  // Glorot's bound: the variance 2 / (inputs + outputs).
  weight = uniform_parameter({vocabulary, dim}, std::sqrt(6.0 / static_cast<double>(vocabulary + dim)));
}

Tensor Embedding::operator()(const Tensor& index) const { return weight.embedding(index); }

Dropout::Dropout(double probability) : p(probability) {
  if (!(p >= 0 && p <= 1)) throw UserError("Dropout", fmt::format("p is {}, which is not within 0 and 1", p));
}

}  // namespace lathe::nn
