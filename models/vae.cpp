#include "models/vae.h"

namespace lathe::models {
namespace {

const ConvOptions kSame{.padding = 1};
constexpr double kEps = 1e-6;

VaeCoder::Shape encoder_shape(const VaeConfig& c) {
  return {c.channels, 2 * c.features, c.widths, c.layers, c.groups, true};
}
VaeCoder::Shape decoder_shape(const VaeConfig& c) {
  return {c.features, c.channels, {c.widths.rbegin(), c.widths.rend()}, c.layers + 1, c.groups, false};
}

std::int64_t innermost(const VaeCoder::Shape& s) { return s.encodes ? s.widths.back() : s.widths.at(0); }

}  // namespace

VaeAttention::VaeAttention(std::int64_t dim, std::int64_t groups)
    : norm(groups, dim, kEps), query(dim, dim), key(dim, dim), value(dim, dim), out(dim, dim) {}

Tensor VaeAttention::operator()(const Tensor& x) const {
  const Tensor seen = pixels_of(norm(x));
  return x + image_of(out(query(seen).scaled_dot_product_attention(key(seen), value(seen))), x);
}

void VaeAttention::parts(nn::Parts& p) {
  p("group_norm", norm)("to_q", query)("to_k", key)("to_v", value)("to_out.0", out);
}

void VaeCoder::Level::parts(nn::Parts& p) {
  p("resnets", resnets);
  if (sampler) p(sampler->kind == Resample::Kind::Double ? "upsamplers.0" : "downsamplers.0", *sampler);
}

VaeCoder::VaeCoder(const Shape& s)
    : encodes(s.encodes),
      in(s.in, s.widths.at(0), 3, kSame),
      last(s.widths.back(), s.out, 3, kSame),
      attention(innermost(s), s.groups),
      norm(s.groups, s.widths.back(), kEps) {
  const auto add = [&](std::vector<DiffusionResNet>& list, std::int64_t from, std::int64_t to) {
    list.emplace_back(DiffusionResNet::Shape{from, to, s.groups, kEps});
  };
  std::int64_t width = s.widths[0];
  for (std::size_t i = 0; i < s.widths.size(); ++i) {
    Level& level = levels.emplace_back();
    for (std::int64_t k = 0; k < s.layers; ++k, width = s.widths[i]) add(level.resnets, width, s.widths[i]);
    if (i + 1 < s.widths.size())
      level.sampler.emplace(width, encodes ? Resample::Kind::HalfAfter : Resample::Kind::Double);
  }
  for (int i = 0; i < 2; ++i) add(middle, innermost(s), innermost(s));
}

Tensor VaeCoder::operator()(const Tensor& image) const {
  const auto inside = [&](const Tensor& x) { return middle[1](attention(middle[0](x))); };
  Tensor x = in(image);
  if (!encodes) x = inside(x);
  for (const Level& level : levels) {
    for (const DiffusionResNet& resnet : level.resnets) x = resnet(x);
    if (level.sampler) x = (*level.sampler)(x);
  }
  if (encodes) x = inside(x);
  return last(norm(x).silu());
}

void VaeCoder::parts(nn::Parts& p) {
  p("conv_in", in)(encodes ? "down_blocks" : "up_blocks", levels);
  p("mid_block.resnets", middle)("mid_block.attentions.0", attention);
  p("conv_norm_out", norm)("conv_out", last);
}

Vae::Vae(const VaeConfig& c)
    : encoder(encoder_shape(c)),
      decoder(decoder_shape(c)),
      after_encoder(2 * c.features, 2 * c.features, 1),
      before_decoder(c.features, c.features, 1) {}

Vae::Encoded Vae::encode(const Tensor& images) const {
  const std::vector<Tensor> half = after_encoder(encoder(images)).chunk(2, 1);
  return {half[0], half[1].clamp(-30.0, 20.0)};
}

Tensor Vae::decode(const Tensor& features) const { return decoder(before_decoder(features)); }

Tensor Vae::loss(const Tensor& images, const Tensor& noise, double weight) const {
  const Encoded e = encode(images);
  const Tensor shown = decode(e.mean + (e.log_variance * 0.5).exp() * noise);
  const Tensor apart =
      (e.mean.square() + e.log_variance.exp() - 1 - e.log_variance).sum({1, 2, 3}).mean() * 0.5;
  return (shown - images).square().mean() + apart * weight;
}

void Vae::parts(nn::Parts& p) {
  p("encoder", encoder)("decoder", decoder);
  p("quant_conv", after_encoder)("post_quant_conv", before_decoder);
}

}  // namespace lathe::models
