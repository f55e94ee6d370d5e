#include "models/unet.h"

#include <fmt/format.h>

#include <cmath>

namespace lathe::models {
namespace {

const ConvOptions kSame{.padding = 1};
constexpr double kEps = 1e-5, kTransformerEps = 1e-6;

// Cosines before sines of each time, at frequencies from 1 to 1 / 10000: (batch, size).
Tensor waves(const Tensor& times, std::int64_t size) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < size / 2; ++i)
    frequencies.push_back(
        static_cast<float>(std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(size))));
  const Tensor angles = times.to_float().reshape({-1, 1}) * Tensor(frequencies, {.device = times.device()});
  return angles.cos().cat(angles.sin(), -1);
}

}  // namespace

CrossAttention::CrossAttention(std::int64_t dim, std::int64_t count, std::int64_t context)
    : query(dim, dim, false),
      key(context, dim, false),
      value(context, dim, false),
      out(dim, dim),
      heads(count) {}

Tensor CrossAttention::operator()(const Tensor& x, const Tensor& seen) const {
  return out(nn::join_heads(nn::split_heads(query(x), heads)
                                .scaled_dot_product_attention(nn::split_heads(key(seen), heads),
                                                              nn::split_heads(value(seen), heads))));
}

void CrossAttention::parts(nn::Parts& p) { p("to_q", query)("to_k", key)("to_v", value)("to_out.0", out); }

ImageTransformer::ImageTransformer(std::int64_t dim, std::int64_t heads, std::int64_t context,
                                   std::int64_t groups)
    : norm(groups, dim, kTransformerEps),
      in(dim, dim, 1),
      out(dim, dim, 1),
      norm1(dim),
      norm2(dim),
      norm3(dim),
      own(dim, heads, dim),
      other(dim, heads, context),
      gated(dim, 8 * dim),
      down(4 * dim, dim) {}

Tensor ImageTransformer::operator()(const Tensor& x, const Tensor& text) const {
  Tensor rows = pixels_of(in(norm(x)));
  const Tensor seen = norm1(rows);
  rows = rows + own(seen, seen);
  rows = rows + other(norm2(rows), text);
  const std::vector<Tensor> half = gated(norm3(rows)).chunk(2, -1);
  rows = rows + down(half[0] * half[1].gelu("none"));
  return x + out(image_of(rows, x));
}

void ImageTransformer::parts(nn::Parts& p) {
  const std::string block = "transformer_blocks.0.";
  p("norm", norm)("proj_in", in)(block + "norm1", norm1)(block + "attn1", own)(block + "norm2", norm2);
  p(block + "attn2", other)(block + "norm3", norm3)(block + "ff.net.0.proj", gated);
  p(block + "ff.net.2", down)("proj_out", out);
}

Tensor UNetLevel::through(std::size_t layer, const Tensor& x, const Tensor& time, const Tensor& text) const {
  const Tensor out = resnets[layer](x, &time);
  return layer < attentions.size() ? attentions[layer](out, text) : out;
}

void UNetLevel::parts(nn::Parts& p) {
  p("resnets", resnets)("attentions", attentions);
  if (sampler) p(sampler->kind == Resample::Kind::Double ? "upsamplers.0" : "downsamplers.0", *sampler);
}

UNet::UNet(const UNetConfig& c)
    : config(c),
      in(c.channels, c.widths.at(0), 3, kSame),
      out(c.widths.at(0), c.channels, 3, kSame),
      time1(c.widths.at(0), 4 * c.widths.at(0)),
      time2(4 * c.widths.at(0), 4 * c.widths.at(0)),
      out_norm(c.groups, c.widths.at(0), kEps) {
  const std::int64_t time = 4 * c.widths[0];
  const auto add = [&](UNetLevel& level, std::int64_t from, std::int64_t to, bool attends) {
    level.resnets.emplace_back(DiffusionResNet::Shape{from, to, c.groups, kEps, time});
    if (attends) level.attentions.emplace_back(to, c.heads, c.context, c.groups);
  };
  std::int64_t width = c.widths[0];
  std::vector<std::int64_t> skips = {width};
  for (std::size_t i = 0; i < c.widths.size(); ++i) {
    const bool last = i + 1 == c.widths.size();
    UNetLevel& level = downs.emplace_back();
    for (std::int64_t k = 0; k < c.layers; ++k, width = c.widths[i]) {
      add(level, width, c.widths[i], !last);
      skips.push_back(c.widths[i]);
    }
    if (last) break;
    level.sampler.emplace(width, Resample::Kind::Half);
    skips.push_back(width);
  }
  add(middle, width, width, true);
  add(middle, width, width, false);
  for (std::size_t i = c.widths.size(); i-- > 0;) {
    UNetLevel& level = ups.emplace_back();
    for (std::int64_t k = 0; k <= c.layers; ++k, width = c.widths[i], skips.pop_back())
      add(level, width + skips.back(), c.widths[i], i + 1 < c.widths.size());
    if (i > 0) level.sampler.emplace(width, Resample::Kind::Double);
  }
}

Tensor UNet::operator()(const Tensor& image, const Tensor& times, const Tensor& text) const {
  const Tensor time = time2(time1(waves(times, config.widths[0])).silu());
  Tensor x = in(image);
  std::vector<Tensor> skips = {x};
  for (const UNetLevel& level : downs) {
    for (std::size_t i = 0; i < level.resnets.size(); ++i) {
      x = level.through(i, x, time, text);
      skips.push_back(x);
    }
    if (!level.sampler) continue;
    x = (*level.sampler)(x);
    skips.push_back(x);
  }
  for (std::size_t i = 0; i < middle.resnets.size(); ++i) x = middle.through(i, x, time, text);
  for (const UNetLevel& level : ups) {
    for (std::size_t i = 0; i < level.resnets.size(); ++i, skips.pop_back())
      x = level.through(i, x.cat(skips.back(), 1), time, text);
    if (level.sampler) x = (*level.sampler)(x);
  }
  return out(out_norm(x).silu());
}

Tensor UNet::loss(const Tensor& x, const Tensor& noise, const Tensor& share, const Tensor& times,
                  const Tensor& text) const {
  const Tensor part = share.reshape({-1, 1, 1, 1});
  const Tensor mixed = x * part.sqrt() + noise * (1 - part).sqrt();
  return ((*this)(mixed, times, text) - noise).square().mean();
}

void UNet::parts(nn::Parts& p) {
  p("conv_in", in)("time_embedding.linear_1", time1)("time_embedding.linear_2", time2);
  p("down_blocks", downs)("mid_block", middle)("up_blocks", ups);
  p("conv_norm_out", out_norm)("conv_out", out);
}

}  // namespace lathe::models
