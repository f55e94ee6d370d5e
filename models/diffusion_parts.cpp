#include "models/diffusion_parts.h"

namespace lathe::models {
namespace {

const ConvOptions kSame{.padding = 1};

ConvOptions options_of(Resample::Kind kind) {
  switch (kind) {
    case Resample::Kind::Half: return {.stride = 2, .padding = 1};
    case Resample::Kind::HalfAfter: return {.stride = 2};
    case Resample::Kind::Double: return kSame;
  }
  return kSame;
}

}  // namespace

DiffusionResNet::DiffusionResNet(const Shape& s)
    : norm1(s.groups, s.in, s.eps),
      norm2(s.groups, s.out, s.eps),
      conv1(s.in, s.out, 3, kSame),
      conv2(s.out, s.out, 3, kSame) {
  if (s.time > 0) time_projection.emplace(s.time, s.out);
  if (s.in != s.out) shortcut.emplace(s.in, s.out, 1);
}

Tensor DiffusionResNet::operator()(const Tensor& x, const Tensor* time) const {
  Tensor out = conv1(norm1(x).silu());
  if (time_projection) out = out + (*time_projection)(time->silu()).unsqueeze(-1).unsqueeze(-1);
  out = conv2(norm2(out).silu());
  return out + (shortcut ? (*shortcut)(x) : x);
}

void DiffusionResNet::parts(nn::Parts& p) {
  p("norm1", norm1)("conv1", conv1);
  if (time_projection) p("time_emb_proj", *time_projection);
  p("norm2", norm2)("conv2", conv2);
  if (shortcut) p("conv_shortcut", *shortcut);
}

Resample::Resample(std::int64_t channels, Kind k) : conv(channels, channels, 3, options_of(k)), kind(k) {}

Tensor Resample::operator()(const Tensor& x) const {
  if (kind == Kind::HalfAfter) return conv(x.pad({{0, 0}, {0, 0}, {0, 1}, {0, 1}}));
  if (kind == Kind::Half) return conv(x);
  return conv(x.repeat_interleave(2, 2).repeat_interleave(2, 3));
}

Tensor pixels_of(const Tensor& image) { return image.flatten(2).transpose(1, 2); }
Tensor image_of(const Tensor& pixels, const Tensor& like) {
  return pixels.transpose(1, 2).reshape(like.shape());
}

}  // namespace lathe::models
