// Convolutions, and the windows they share with pools.
#include <fmt/format.h>

#include <algorithm>

#include "formats/onnx/ops/shared.h"
#include "formats/onnx/quantised_sum.h"

namespace lathe::onnx {
namespace {

// Paddings that make the output ceil(size / stride) long; the odd one goes after the data, or before it.
void pad_same(Window& w, const Numbers& sizes, bool odd_after) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t out = (sizes[i] + w.strides[i] - 1) / w.strides[i];
    const std::int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    const std::int64_t all = std::max<std::int64_t>(0, (out - 1) * w.strides[i] + reach - sizes[i]);
    w.before[i] = odd_after ? all / 2 : all - all / 2;
    w.after[i] = all - w.before[i];
  }
}

const Tensor* input_or_null(const Call& c, std::size_t i) { return c.has(i) ? &c.x(i) : nullptr; }

Outputs conv(const Call& c) {
  WeightAxes axes{.rank = c.x(0).ndim()};
  for (std::int64_t i = 1; i < c.x(1).ndim(); ++i) axes.summed.push_back(i);
  const auto integers = [&](const Tensor& x, const Tensor& weight, std::int64_t border) {
    return convolution(c, x, weight, nullptr, border);
  };
  if (const std::optional<Tensor> sum = quantised_sum(c, axes, integers)) return {*sum};
  return {convolution(c, read_often(c, 0), c.x(1), input_or_null(c, 2))};
}

// Computed in full and then cut: paddings may differ at the two ends, and an output shape may be wished for.
Outputs conv_transpose(const Call& c) {
  const Tensor &x = c.x(0), &weight = c.x(1);
  const Numbers sizes = spatial_sizes(c, x), kernel = spatial_sizes(c, weight);
  const std::size_t rank = sizes.size();
  const Numbers ones(rank, 1), zeros(rank, 0);
  const Numbers strides = c.ints("strides", ones), dilations = c.ints("dilations", ones);
  const Numbers extra = c.ints("output_padding", zeros), wanted = c.ints("output_shape");
  Numbers pads = c.ints("pads", Numbers(2 * rank, 0));
  const std::string mode = c.text("auto_pad", "NOTSET");
  if (strides.size() != rank || dilations.size() != rank || extra.size() != rank || pads.size() != 2 * rank)
    c.fail("strides, dilations or paddings have a different number of axes than the input");
  for (std::size_t i = 0; i < rank; ++i)
    if (strides[i] < 1 || dilations[i] < 1 || extra[i] < 0)
      c.fail("a stride, dilation or padding is out of range");
  Numbers out(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t full = strides[i] * (sizes[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1;
    out[i] = full - pads[i] - pads[i + rank];
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (!wanted.empty()) out[i] = wanted[wanted.size() - rank + i];
    if (wanted.empty() && same) out[i] = sizes[i] * strides[i];
    if (!wanted.empty() || same) {
      const std::int64_t all =
          std::max<std::int64_t>(full - out[i], 0);  // what more is asked for comes after
      pads[i] = mode == "SAME_UPPER" ? all / 2 : all - all / 2;
      pads[i + rank] = all - pads[i];
    }
  }
  Tensor y = x.conv_transpose2d(weight, nullptr,
                                {.groups = c.integer("group", 1),
                                 .stride = strides,
                                 .dilation = dilations,
                                 .padding = zeros,
                                 .output_padding = zeros});
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    const std::int64_t have = concrete(y.size(axis), c, "an axis");
    const std::int64_t begin = std::max<std::int64_t>(pads[i], 0),
                       before = std::max<std::int64_t>(-pads[i], 0);
    const std::int64_t end = std::min(have, begin + out[i] - before),
                       after = out[i] - before - std::max<std::int64_t>(end - begin, 0);
    if (begin != 0 || end != have) y = sliced(y, axis, begin, std::max(begin, end));
    if (before != 0 || after != 0) y = padded(y, axis, before, after);
  }
  if (c.has(2)) y = y + along(c.x(2), 1, y.ndim());
  return {y};
}

// Bilinear samples of one image plane at fractional positions; zero outside.
Tensor sampled(const Tensor& x, const Tensor& row, const Tensor& column, std::int64_t height,
               std::int64_t width) {
  // x is (images, height * width); row and column are (images, points).
  const Tensor top = row.floor(), left = column.floor();
  Tensor sum;
  for (int dy = 0; dy < 2; ++dy)
    for (int dx = 0; dx < 2; ++dx) {
      const Tensor r = top + dy, k = left + dx;
      const Tensor inside = r.ge(0) & r.le(height - 1) & k.ge(0) & k.le(width - 1);
      const Tensor at =
          (r.clamp(0, height - 1) * static_cast<double>(width) + k.clamp(0, width - 1)).cast(dtypes::int64);
      const Tensor weight = (1.0 - (row - r).abs()) * (1.0 - (column - k).abs());
      const Tensor part = inside.where(x.gather(1, at) * weight, 0);
      sum = sum.defined() ? sum + part : part;
    }
  return sum;
}

// A convolution whose taps are moved by offsets of their own and weighted by a mask.
Outputs deform_conv(const Call& c) {
  const Tensor &x = c.x(0), &weight = c.x(1), &offset = c.x(2);
  const Numbers s = concrete_shape(x, c), ws = concrete_shape(weight, c);
  if (s.size() != 4) c.not_supported("only images of two axes are deformed");
  const Window w = window_of(c, {s[2], s[3]}, c.ints("kernel_shape", {ws[2], ws[3]}));
  const std::int64_t groups = c.integer("group", 1), moves = c.integer("offset_group", 1);
  const std::int64_t oh = offset.size(2).value(), ow = offset.size(3).value(),
                     taps = w.kernel[0] * w.kernel[1];
  if (moves < 1 || groups < 1 || s[1] % moves != 0 || s[1] % groups != 0)
    c.fail("the groups do not divide the channels");
  const std::int64_t n = s[0], channels = s[1], each = channels / moves;
  if (taps * oh * ow > (std::int64_t(1) << 26)) c.fail("the image is too large");
  std::vector<double> rows, columns;
  for (std::int64_t t = 0; t < taps; ++t)
    for (std::int64_t i = 0; i < oh; ++i)
      for (std::int64_t j = 0; j < ow; ++j) {
        rows.push_back(
            static_cast<double>(i * w.strides[0] - w.before[0] + (t / w.kernel[1]) * w.dilations[0]));
        columns.push_back(
            static_cast<double>(j * w.strides[1] - w.before[1] + (t % w.kernel[1]) * w.dilations[1]));
      }
  const Shape grid = {1, 1, taps, oh, ow};
  const Tensor moved = offset.reshape({n, moves, taps, 2, oh, ow});
  auto positions = [&](const std::vector<double>& base, std::int64_t which) {
    return (moved.getitem({Slice{}, Slice{}, Slice{}, which}) + c.constant(base, grid, x.dtype()))
        .unsqueeze(2)
        .expand({n, moves, each, taps, oh, ow})
        .reshape({n * channels, taps * oh * ow});
  };
  Tensor samples =
      sampled(x.reshape({n * channels, s[2] * s[3]}), positions(rows, 0), positions(columns, 1), s[2], s[3])
          .reshape({n, moves, each, taps, oh * ow});
  if (c.has(4)) samples = samples * c.x(4).reshape({n, moves, 1, taps, oh * ow});
  const Tensor patches = samples.reshape({n, groups, channels / groups * taps, oh * ow});
  const Tensor filters = weight.reshape({1, groups, ws[0] / groups, ws[1] * taps});
  Tensor y = filters.matmul(patches).reshape({n, ws[0], oh, ow});
  if (c.has(3)) y = y + along(c.x(3), 1, 4);
  return {y};
}

// Patches summed back into the image they were cut from.
Outputs col2im(const Call& c) {
  const Tensor& x = c.x(0);
  const Numbers image = c.ints(1), block = c.ints(2), s = concrete_shape(x, c);
  const std::size_t rank = image.size();
  const Window w = window_of(c, image, block);
  const std::int64_t taps = product(block);
  if (s.size() != 3 || taps == 0 || s[1] % taps != 0) c.fail("the patches do not fit the block");
  const std::int64_t channels = s[1] / taps;
  Numbers counts, whole;
  for (std::size_t i = 0; i < rank; ++i) {
    whole.push_back(image[i] + w.before[i] + w.after[i]);
    counts.push_back((whole[i] - (block[i] - 1) * w.dilations[i] - 1) / w.strides[i] + 1);
  }
  if (product(counts) != s[2])
    c.fail(fmt::format("there are {} patches, the image has {}", s[2], product(counts)));
  if (taps * s[2] > (std::int64_t(1) << 26)) c.fail("the image is too large");
  // Where each element of each patch belongs in the padded image.
  Numbers at;
  for (std::int64_t t = 0; t < taps; ++t)
    for (std::int64_t p = 0; p < s[2]; ++p) {
      std::int64_t flat = 0, tap = t, patch = p, stride = 1;
      for (std::size_t i = rank; i-- > 0;) {
        flat += ((tap % block[i]) * w.dilations[i] + (patch % counts[i]) * w.strides[i]) * stride;
        tap /= block[i];
        patch /= counts[i];
        stride *= whole[i];
      }
      at.push_back(flat);
    }
  const std::int64_t images = s[0] * channels;
  const Tensor index = c.constant(at, {1, Size(at.size())}).expand({images, Size(at.size())});
  Tensor y = Tensor::zeros({images, product(whole)}, {.dtype = x.dtype(), .device = c.device()})
                 .scatter_reduce(1, index, x.reshape({images, taps * s[2]}), "sum");
  Shape shape = {s[0], channels};
  shape.insert(shape.end(), whole.begin(), whole.end());
  y = y.reshape(shape);
  for (std::size_t i = 0; i < rank; ++i)
    y = sliced(y, static_cast<std::int64_t>(i) + 2, w.before[i], w.before[i] + image[i]);
  return {y};
}

// clang-format off
const OpRow kRows[] = {
    {"Conv", 1, conv}, {"ConvTranspose", 1, conv_transpose}, {"DeformConv", 19, deform_conv}, {"Col2Im", 18, col2im},
};
// clang-format on

}  // namespace

Numbers spatial_sizes(const Call& c, const Tensor& x) {
  const Numbers all = concrete_shape(x, c);
  if (all.size() < 3) c.fail(fmt::format("an input has {} axes, at least 3 are needed", all.size()));
  return {all.begin() + 2, all.end()};
}

Window window_of(const Call& c, const Numbers& sizes, const Numbers& kernel) {
  const std::size_t rank = sizes.size();
  const Numbers ones(rank, 1);
  Window w{kernel, c.ints("strides", ones), c.ints("dilations", ones), Numbers(rank), Numbers(rank)};
  const Numbers pads = c.ints("pads", Numbers(2 * rank, 0));
  if (kernel.size() != rank || w.strides.size() != rank || w.dilations.size() != rank ||
      pads.size() != 2 * rank)
    c.fail(fmt::format("the window has a different number of axes than the input, which has {}", rank));
  constexpr std::int64_t kMost = std::int64_t(1) << 31;
  for (std::size_t i = 0; i < rank; ++i) {
    if (kernel[i] < 1 || kernel[i] > kMost || w.strides[i] < 1 || w.strides[i] > kMost ||
        w.dilations[i] < 1 || w.dilations[i] > kMost)
      c.fail("a size, stride or dilation of the window is out of range");
    if (pads[i] < 0 || pads[i + rank] < 0 || pads[i] > kMost || pads[i + rank] > kMost)
      c.fail("a padding is out of range");
    w.before[i] = pads[i];
    w.after[i] = pads[i + rank];
  }
  const std::string mode = c.text("auto_pad", "NOTSET");
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER")
    pad_same(w, sizes, mode == "SAME_UPPER");
  else if (mode == "VALID")
    w.before = w.after = Numbers(rank, 0);
  else if (mode != "NOTSET")
    c.fail(fmt::format("auto_pad is '{}'", formats::shown(mode)));
  return w;
}

Numbers padding_pairs(const Window& w) {
  Numbers pairs;
  for (std::size_t i = w.before.size(); i-- > 0;) {
    pairs.push_back(w.before[i]);
    pairs.push_back(w.after[i]);
  }
  return pairs;
}

// The batch may be symbolic; the spatial axes may not.
Tensor convolution(const Call& c, const Tensor& x, const Tensor& weight, const Tensor* bias,
                   std::int64_t border) {
  if (x.ndim() != weight.ndim())
    c.fail(fmt::format("the input has {} axes, the weight has {}", x.ndim(), weight.ndim()));
  Numbers sizes;
  for (std::int64_t i = 2; i < x.ndim(); ++i) sizes.push_back(concrete(x.size(i), c, "a spatial axis"));
  const Numbers kernel = spatial_sizes(c, weight);
  const Numbers told = c.ints("kernel_shape", kernel);
  if (told != kernel) c.fail("kernel_shape differs from the shape of the weight");
  Window w = window_of(c, sizes, kernel);
  Tensor around = x;
  if (border != 0)
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (w.before[i] == 0 && w.after[i] == 0) continue;
      around = padded(around, static_cast<std::int64_t>(i) + 2, w.before[i], w.after[i], border);
      w.before[i] = w.after[i] = 0;
    }
  const auto wide = [](const Tensor& t) { return t.is_floating_point() ? t : t.cast(dtypes::int32); };
  return wide(around).conv2d(wide(weight), bias,
                             {.groups = c.integer("group", 1),
                              .stride = w.strides,
                              .dilation = w.dilations,
                              .padding = padding_pairs(w)});
}

OpTable convolution_ops() { return {"", "convolutions", kRows}; }

}  // namespace lathe::onnx
