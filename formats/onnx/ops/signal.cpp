// Fourier transforms, windows and filter banks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// cos and sin of the angles of a transform of n points, as matrices (points, frequencies).
struct Waves {
  Tensor cosine, sine;
};

Waves waves(const Call& c, std::int64_t points, std::int64_t n, std::int64_t frequencies, DataType dtype) {
  if (points * frequencies > (std::int64_t(1) << 26))
    c.not_supported(fmt::format("a transform of {} points is too long", n));
  std::vector<double> cosine, sine;
  for (std::int64_t t = 0; t < points; ++t)
    for (std::int64_t k = 0; k < frequencies; ++k) {
      const double angle = kTwoPi * static_cast<double>((t * k) % n) / static_cast<double>(n);
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  return {c.constant(cosine, {points, frequencies}, dtype), c.constant(sine, {points, frequencies}, dtype)};
}

// The transform along the last but one axis of (..., points, 1 or 2), to n frequencies.
Tensor transformed(const Call& c, const Tensor& x, std::int64_t n, bool inverse, bool one_sided) {
  const std::int64_t rank = x.ndim(), have = concrete(x.size(rank - 2), c, "the axis of a transform");
  const std::int64_t points = std::min(have, n), frequencies = one_sided ? n / 2 + 1 : n;
  const Tensor used = points < have ? sliced(x, rank - 2, 0, points) : x;
  const Waves w = waves(c, points, n, frequencies, x.dtype());
  auto component = [&](std::int64_t k) { return used.getitem({kEllipsis, k}); };
  const Tensor real = component(0);
  Tensor re = real.matmul(w.cosine), im = real.matmul(w.sine);
  const double sign = inverse ? 1 : -1;
  im = im * sign;
  if (x.size(rank - 1) == 2) {
    const Tensor imaginary = component(1);
    re = re - imaginary.matmul(w.sine) * sign;
    im = im + imaginary.matmul(w.cosine);
  }
  const Tensor out = Tensor::stack({re, im}, rank - 1);
  return inverse ? out / static_cast<double>(n) : out;
}

// A one-sided spectrum back to a real signal: the other side is its conjugate.
Tensor mirrored_spectrum(const Call& c, const Tensor& x, std::int64_t n) {
  const std::int64_t rank = x.ndim(), have = concrete(x.size(rank - 2), c, "the axis of a transform"),
                     rest = n - have;
  if (rest <= 0) return x;
  const Tensor other = sliced(x, rank - 2, 1, 1 + rest).flip(rank - 2);
  return Tensor::cat({x, other * c.constant({1.0, -1.0}, {2}, x.dtype())}, rank - 2);
}

Outputs dft(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t rank = x.ndim();
  const std::int64_t given = c.version < 20 ? c.integer("axis", 1)
                             : c.has(2)     ? c.integer(std::size_t(2))
                                            : -2;
  const std::int64_t axis = c.axis(given, rank);
  const bool inverse = c.integer("inverse", 0) != 0, one_sided = c.integer("onesided", 0) != 0;
  if (axis == rank - 1) c.fail("the last axis holds real and imaginary parts");
  Tensor moved = x.movedim(axis, rank - 2);
  const std::int64_t have = concrete(moved.size(rank - 2), c, "the axis of a transform");
  const std::int64_t n = c.has(1) ? c.integer(std::size_t(1)) : inverse && one_sided ? 2 * (have - 1) : have;
  if (n < 1) c.fail("a transform needs a point");
  if (inverse && one_sided) {
    moved = mirrored_spectrum(c, moved, n);
    const Tensor signal = transformed(c, moved, n, true, false);
    return {sliced(signal, rank - 1, 0, 1).movedim(rank - 2, axis)};
  }
  return {transformed(c, moved, n, inverse, one_sided).movedim(rank - 2, axis)};
}

Outputs stft(const Call& c) {
  const Tensor& signal = c.x(0);
  const std::int64_t step = c.integer(std::size_t(1)), length = concrete(signal.size(1), c, "the signal");
  const std::int64_t frame = c.has(3)   ? c.integer(std::size_t(3))
                             : c.has(2) ? concrete(c.x(2).size(0), c, "the window")
                                        : length;
  if (step < 1 || frame < 1 || frame > length) c.fail("frames do not fit the signal");
  const std::int64_t frames = (length - frame) / step + 1;
  const Tensor x = signal.ndim() == 3 ? signal : signal.unsqueeze(-1);
  Tensor parts = x.unfold(1, frame, step);  // (batch, frames, parts, frame)
  parts = sliced(parts, 1, 0, frames).permute({0, 1, 3, 2});
  if (c.has(2)) parts = parts * c.x(2).reshape({frame, 1});
  return {transformed(c, parts, frame, false, c.integer("onesided", 1) != 0)};
}

// A sum of cosines over the window: a0 - a1 cos(t) + a2 cos(2t).
Outputs window(const Call& c, double a0, double a1, double a2) {
  const std::int64_t n = c.integer(std::size_t(0));
  if (n < 0 || n > (1 << 26)) c.fail(fmt::format("a window of {} points", n));
  const auto span = static_cast<double>(c.integer("periodic", 1) != 0 ? n : n - 1);
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) {
    const double t = kTwoPi * static_cast<double>(i) / span;
    values.push_back(a0 - a1 * std::cos(t) + a2 * std::cos(2 * t));
  }
  return {c.constant(values, {n}, dtype_for(static_cast<Element>(c.integer("output_datatype", 1)), c))};
}

Outputs mel_weights(const Call& c) {
  const std::int64_t mels = c.integer(std::size_t(0)), dft_length = c.integer(std::size_t(1)),
                     rate = c.integer(std::size_t(2));
  const double low = c.number(std::size_t(3)), high = c.number(std::size_t(4));
  const std::int64_t bins = dft_length / 2 + 1;
  if (mels < 1 || bins < 1 || rate < 1 || mels * bins > (std::int64_t(1) << 26))
    c.fail("the sizes of a filter bank are out of range");
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low_mel = to_mel(low), step = (to_mel(high) - low_mel) / static_cast<double>(mels + 2);
  Numbers edges;
  for (std::int64_t i = 0; i < mels + 2; ++i) {
    const double hertz = 700 * (std::pow(10.0, (low_mel + step * static_cast<double>(i)) / 2595) - 1);
    edges.push_back(static_cast<std::int64_t>(
        std::floor(static_cast<double>(dft_length + 1) * hertz / static_cast<double>(rate))));
  }
  std::vector<double> weights(static_cast<std::size_t>(bins * mels));
  for (std::int64_t m = 0; m < mels; ++m) {
    const auto at = static_cast<std::size_t>(m);
    const std::int64_t left = edges[at], middle = edges[at + 1], right = edges[at + 2];
    auto put = [&](std::int64_t bin, double v) {
      if (bin >= 0 && bin < bins) weights[static_cast<std::size_t>(bin * mels + m)] = v;
    };
    if (left == middle)
      put(middle, 1);
    else
      for (std::int64_t b = left; b <= middle; ++b)
        put(b, static_cast<double>(b - left) / static_cast<double>(middle - left));
    for (std::int64_t b = middle; b < right; ++b)
      put(b, static_cast<double>(right - b) / static_cast<double>(right - middle));
  }
  return {
      c.constant(weights, {bins, mels}, dtype_for(static_cast<Element>(c.integer("output_datatype", 1)), c))};
}

// clang-format off
const OpRow kRows[] = {
    {"DFT", 17, dft}, {"STFT", 17, stft}, {"MelWeightMatrix", 17, mel_weights},
    {"HannWindow", 17, [](const Call& c) -> Outputs { return window(c, 0.5, 0.5, 0); }},
    {"HammingWindow", 17, [](const Call& c) -> Outputs { return window(c, 25.0 / 46, 21.0 / 46, 0); }},
    {"BlackmanWindow", 17, [](const Call& c) -> Outputs { return window(c, 0.42, 0.5, 0.08); }},
};
// clang-format on

}  // namespace

OpTable signal_ops() { return {"", "signals", kRows}; }

}  // namespace lathe::onnx
