// Pools: paddings that differ at the two ends, windows that reach over the end, and dilations are all handled
// by padding first and by counting what each window covers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

// A window with the number of its positions, and the padding after the data that all of them need.
struct Pool {
  Window window;
  Numbers sizes, counts, room;
};

Pool pool_of(const Call& c, const Tensor& x) {
  Pool p;
  for (std::int64_t i = 2; i < x.ndim(); ++i) p.sizes.push_back(concrete(x.size(i), c, "a spatial axis"));
  p.window = window_of(c, p.sizes, c.ints("kernel_shape"));
  const Window& w = p.window;
  const bool ceil = c.integer("ceil_mode", 0) != 0;
  for (std::size_t i = 0; i < p.sizes.size(); ++i) {
    const std::int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1,
                       whole = p.sizes[i] + w.before[i] + w.after[i];
    if (whole < reach && !(ceil && p.sizes[i] > 0))
      c.fail(fmt::format("the window of {} does not fit an axis of {}", reach, whole));
    const std::int64_t spare = std::max<std::int64_t>(whole - reach, 0);
    std::int64_t count = (ceil ? (spare + w.strides[i] - 1) / w.strides[i] : spare / w.strides[i]) + 1;
    // A window that begins in the padding after the data covers nothing and is left out.
    if (ceil && (count - 1) * w.strides[i] >= p.sizes[i] + w.before[i]) --count;
    if (count > (1 << 26) || w.kernel[i] > (1 << 26))
      c.fail(fmt::format("a pool of {} windows of {} is too large", count, w.kernel[i]));
    p.counts.push_back(count);
    p.room.push_back(
        std::max<std::int64_t>(0, (count - 1) * w.strides[i] + reach - p.sizes[i] - w.before[i]));
  }
  return p;
}

Tensor with_room(const Tensor& x, const Pool& p, Number value) {
  std::vector<std::pair<Size, Size>> widths(2, {Size(0), Size(0)});
  std::vector<std::pair<Size, Size>> kept;
  bool any = false, cut = false;
  for (std::int64_t i = 0; i < 2; ++i) kept.emplace_back(Size(0), x.size(i));
  for (std::size_t i = 0; i < p.sizes.size(); ++i) {
    widths.emplace_back(Size(p.window.before[i]), Size(p.room[i]));
    any |= p.window.before[i] != 0 || p.room[i] != 0;
    // What is past the last window is not read.
    const std::int64_t used =
        (p.counts[i] - 1) * p.window.strides[i] + (p.window.kernel[i] - 1) * p.window.dilations[i] + 1;
    const std::int64_t whole = p.sizes[i] + p.window.before[i] + p.room[i];
    cut |= used < whole;
    kept.emplace_back(Size(0), Size(used));
  }
  const Tensor t = any ? x.pad(widths, value) : x;
  return cut ? t.shrink(kept) : t;
}

PoolOptions options_of(const Pool& p) { return {.stride = p.window.strides, .dilation = p.window.dilations}; }

// The number of elements each window covers: those of the data, or of the data with its padding.
Tensor covered(const Call& c, const Pool& p, bool with_padding, DataType dtype, bool& uniform) {
  const std::size_t rank = p.sizes.size();
  double windows = 1;
  for (std::size_t i = 0; i < rank; ++i) windows *= static_cast<double>(p.counts[i]);
  if (windows > (1 << 26)) c.fail("the pool has too many windows");
  std::vector<double> all = {1.0};
  for (std::size_t i = 0; i < rank; ++i) {
    const Window& w = p.window;
    std::vector<double> own, next;
    for (std::int64_t o = 0; o < p.counts[i]; ++o) {
      int count = 0;
      for (std::int64_t k = 0; k < w.kernel[i]; ++k) {
        const std::int64_t at = o * w.strides[i] + k * w.dilations[i] - w.before[i];
        count += with_padding ? (at < p.sizes[i] + w.after[i] ? 1 : 0) : (at >= 0 && at < p.sizes[i] ? 1 : 0);
      }
      own.push_back(count);
    }
    for (double a : all)
      for (double o : own) next.push_back(a * o);
    all = next;
  }
  uniform = std::all_of(all.begin(), all.end(),
                        [&](double v) { return v == static_cast<double>(product(p.window.kernel)); });
  Shape shape = {1, 1};
  shape.insert(shape.end(), p.counts.begin(), p.counts.end());
  return c.constant(all, shape, dtype);
}

Outputs average_pool(const Call& c) {
  const Tensor& x = c.x(0);
  const Pool p = pool_of(c, x);
  const Tensor mean = with_room(x, p, 0).avg_pool2d(p.window.kernel, options_of(p));
  bool uniform = false;
  const DataType wide = x.dtype().bitsize() < 32 ? dtypes::float32 : x.dtype();
  const Tensor counts = covered(c, p, c.integer("count_include_pad", 0) != 0, wide, uniform);
  if (uniform) return {mean};
  return {(mean.cast(wide) * (static_cast<double>(product(p.window.kernel)) / counts)).cast(x.dtype())};
}

Outputs lp_pool(const Call& c) {
  const Tensor& x = c.x(0);
  const Pool p = pool_of(c, x);
  const auto power = static_cast<double>(c.integer("p", 2));
  const Tensor mean = with_room(x.abs().pow(power), p, 0).avg_pool2d(p.window.kernel, options_of(p));
  return {(mean * static_cast<double>(product(p.window.kernel))).pow(1.0 / power)};
}

Number lowest(DataType dtype) { return dtypes::min(dtype); }

// Positions of the padded image as positions of the whole tensor, last axis fastest or first.
Tensor positions(const Call& c, const Tensor& found, const Tensor& x, const Pool& p, const Tensor& room) {
  const bool columns_first = c.integer("storage_order", 0) != 0;
  const std::size_t rank = p.sizes.size();
  Tensor rest = found.cast(dtypes::int64), flat;
  std::vector<Tensor> at(rank);
  for (std::size_t i = rank; i-- > 0;) {
    const std::int64_t size = room.size(static_cast<std::int64_t>(i) + 2).value();
    at[i] = rest.mod(size) - p.window.before[i];
    rest = rest.div(size, "floor");
  }
  std::int64_t stride = 1;
  for (std::size_t k = 0; k < rank; ++k) {
    const std::size_t i = columns_first ? k : rank - 1 - k;
    flat = flat.defined() ? flat + at[i] * stride : at[i];
    stride *= p.sizes[i];
  }
  const std::int64_t planes = x.size(0).value() * x.size(1).value();
  Shape shape(rank + 2, Size(1));
  shape[0] = x.size(0);
  shape[1] = x.size(1);
  return flat +
         Tensor::arange(planes, {.dtype = dtypes::int64, .device = c.device()}).reshape(shape) * stride;
}

Outputs max_pool(const Call& c) {
  const Tensor& x = c.x(0);
  const Pool p = pool_of(c, x);
  const Tensor room = with_room(x, p, lowest(x.dtype()));
  if (!c.wants(1)) return {room.max_pool2d(p.window.kernel, options_of(p))};
  const auto [values, index] = room.max_pool2d_with_indices(p.window.kernel, options_of(p));
  return {values, positions(c, index, x, p, room)};
}

Outputs max_unpool(const Call& c) {
  const Tensor& x = c.x(0);
  const Numbers in = concrete_shape(x, c), kernel = c.ints("kernel_shape");
  const Window w = window_of(c, {in.begin() + 2, in.end()}, kernel);
  Numbers inferred = {in[0], in[1]};
  for (std::size_t i = 0; i < kernel.size(); ++i)
    inferred.push_back((in[i + 2] - 1) * w.strides[i] + kernel[i] - w.before[i] - w.after[i]);
  const Numbers out = c.has(2) ? c.ints(2) : inferred;
  if (out.size() != in.size()) c.fail("the output shape has a different number of axes");
  // Positions count in the inferred shape, which is in the corner of a larger one that is wished for.
  Tensor rest = c.x(1).cast(dtypes::int64), flat;
  std::int64_t stride = 1;
  for (std::size_t i = out.size(); i-- > 0;) {
    const Tensor at = rest.mod(inferred[i]);
    rest = rest.div(inferred[i], "floor");
    flat = flat.defined() ? flat + at * stride : at;
    stride *= out[i];
  }
  const Tensor zeros = Tensor::zeros({product(out)}, {.dtype = x.dtype(), .device = c.device()});
  return {zeros.scatter(0, flat.reshape({-1}), x.reshape({-1})).reshape(Shape(out.begin(), out.end()))};
}

Numbers spatial_axes(const Tensor& x) {
  Numbers axes;
  for (std::int64_t i = 2; i < x.ndim(); ++i) axes.push_back(i);
  return axes;
}

Outputs global_lp_pool(const Call& c) {
  const auto p = static_cast<double>(c.integer("p", 2));
  return {c.x(0).abs().pow(p).sum(spatial_axes(c.x(0)), true).pow(1.0 / p)};
}

// The largest element of each cell of a region; regions are read, because cells of each have sizes of their
// own.
Outputs max_roi_pool(const Call& c) {
  const Tensor& x = c.x(0);
  const Numbers shape = c.ints("pooled_shape"), s = concrete_shape(x, c);
  const double scale = c.number("spatial_scale", 1.0);
  const std::vector<double> rois = c.floats(1);
  if (shape.size() != 2 || s.size() != 4 || rois.size() % 5 != 0)
    c.fail("images, and regions of 5 numbers, are needed");
  std::vector<Tensor> regions;
  for (std::size_t r = 0; r < rois.size(); r += 5) {
    const auto at = [&](std::size_t k) { return static_cast<std::int64_t>(std::round(rois[r + k] * scale)); };
    const auto image = static_cast<std::int64_t>(rois[r]);
    if (image < 0 || image >= s[0])
      c.fail(fmt::format("region {} is of image {}, there are {}", r / 5, image, s[0]));
    const double h =
        static_cast<double>(std::max<std::int64_t>(at(4) - at(2) + 1, 1)) / static_cast<double>(shape[0]);
    const double w =
        static_cast<double>(std::max<std::int64_t>(at(3) - at(1) + 1, 1)) / static_cast<double>(shape[1]);
    std::vector<Tensor> cells;
    for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i) {
      const auto row = static_cast<double>(i / shape[1]), column = static_cast<double>(i % shape[1]);
      const auto bound = [](double v, std::int64_t start, std::int64_t n) {
        return std::clamp<std::int64_t>(static_cast<std::int64_t>(v) + start, 0, n);
      };
      const std::int64_t top = bound(std::floor(row * h), at(2), s[2]),
                         bottom = bound(std::ceil((row + 1) * h), at(2), s[2]);
      const std::int64_t left = bound(std::floor(column * w), at(1), s[3]),
                         right = bound(std::ceil((column + 1) * w), at(1), s[3]);
      cells.push_back(top >= bottom || left >= right
                          ? Tensor::zeros({s[1]}, {.dtype = x.dtype(), .device = c.device()})
                          : x.getitem({image, Slice{}, Slice{top, bottom}, Slice{left, right}}).max({1, 2}));
    }
    regions.push_back(Tensor::stack(cells, 1).reshape({s[1], shape[0], shape[1]}));
  }
  if (regions.empty())
    return {Tensor::empty({0, s[1], shape[0], shape[1]}, {.dtype = x.dtype(), .device = c.device()})};
  return {Tensor::stack(regions)};
}

// clang-format off
const OpRow kRows[] = {
    {"AveragePool", 1, average_pool}, {"MaxPool", 1, max_pool}, {"LpPool", 1, lp_pool}, {"MaxUnpool", 9, max_unpool},
    {"GlobalAveragePool", 1, [](const Call& c) -> Outputs { return {c.x(0).mean(spatial_axes(c.x(0)), true)}; }},
    {"GlobalMaxPool", 1, [](const Call& c) -> Outputs { return {c.x(0).max(spatial_axes(c.x(0)), true)}; }},
    {"GlobalLpPool", 1, global_lp_pool},
    {"MaxRoiPool", 1, max_roi_pool},
};
// clang-format on

}  // namespace

OpTable pool_ops() { return {"", "pools", kRows}; }

}  // namespace lathe::onnx
