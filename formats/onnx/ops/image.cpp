// Images: resampling, boxes and grids.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

// How one axis is resampled: for each output, positions of the input and their weights.
struct Taps {
  std::vector<Numbers> positions;            // one list per tap
  std::vector<std::vector<double>> weights;  // likewise
  std::vector<bool> outside;                 // outputs that are outside the region to crop
};

struct ResizeOptions {
  std::string mode, transform, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

// The position in the input that output `i` is made from.
double source_position(const ResizeOptions& o, double i, double scale, std::int64_t in, std::int64_t out,
                       double start, double end) {
  const auto n = static_cast<double>(in), m = static_cast<double>(out);
  if (o.transform == "asymmetric") return i / scale;
  if (o.transform == "pytorch_half_pixel") return m > 1 ? (i + 0.5) / scale - 0.5 : 0;
  // The last output that a scale asks for need not be a whole one.
  if (o.transform == "align_corners") return m > 1 ? i * (n - 1) / (n * scale - 1) : 0;
  if (o.transform == "tf_half_pixel_for_nn") return (i + 0.5) / scale;
  if (o.transform == "tf_crop_and_resize")
    return m > 1 ? start * (n - 1) + i * (end - start) * (n - 1) / (m - 1) : 0.5 * (start + end) * (n - 1);
  if (o.transform == "half_pixel_symmetric") {
    const double adjusted = m / (scale * n), center = n / 2;
    return center * (1 - adjusted) + (i + 0.5) / scale - 0.5;
  }
  return (i + 0.5) / scale - 0.5;
}

std::int64_t nearest_position(const ResizeOptions& o, double at) {
  if (o.nearest == "floor") return static_cast<std::int64_t>(std::floor(at));
  if (o.nearest == "ceil") return static_cast<std::int64_t>(std::ceil(at));
  const double low = std::floor(at);
  if (at - low == 0.5) return static_cast<std::int64_t>(o.nearest == "round_prefer_ceil" ? low + 1 : low);
  return static_cast<std::int64_t>(std::round(at));
}

double cubic_weight(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

constexpr std::int64_t kMostOnHost = std::int64_t(1) << 26;  // positions that are listed on the host

Taps taps_of(const ResizeOptions& o, std::int64_t in, std::int64_t out, double scale, double start,
             double end) {
  Taps taps;
  // With antialiasing, a filter that shrinks an image is widened to cover every input.
  const double stretch = o.antialias && scale < 1 ? scale : 1;
  const double radius = (o.mode == "cubic" ? 2 : 1) / stretch;
  const auto count = o.mode == "nearest" ? std::size_t(1) : static_cast<std::size_t>(2 * std::ceil(radius));
  taps.positions.resize(count);
  taps.weights.resize(count);
  for (std::int64_t i = 0; i < out; ++i) {
    const double at = source_position(o, static_cast<double>(i), scale, in, out, start, end);
    taps.outside.push_back(o.transform == "tf_crop_and_resize" &&
                           (at < 0 || at > static_cast<double>(in - 1)));
    if (o.mode == "nearest") {
      taps.positions[0].push_back(std::clamp<std::int64_t>(nearest_position(o, at), 0, in - 1));
      taps.weights[0].push_back(1);
      continue;
    }
    const auto first = static_cast<std::int64_t>(std::floor(at)) - static_cast<std::int64_t>(count) / 2 + 1;
    double sum = 0;
    std::vector<double> weights;
    for (std::size_t k = 0; k < count; ++k) {
      const std::int64_t position = first + static_cast<std::int64_t>(k);
      const double distance = (at - static_cast<double>(position)) * stretch;
      double w = o.mode == "cubic" ? cubic_weight(distance, o.cubic) : std::max(0.0, 1 - std::abs(distance));
      if (o.exclude_outside && (position < 0 || position >= in)) w = 0;
      weights.push_back(w);
      sum += w;
      taps.positions[k].push_back(std::clamp<std::int64_t>(position, 0, in - 1));
    }
    const bool normalise = o.exclude_outside || stretch != 1;
    for (std::size_t k = 0; k < count; ++k)
      taps.weights[k].push_back(normalise && sum != 0 ? weights[k] / sum : weights[k]);
  }
  return taps;
}

Tensor resampled(const Call& c, const Tensor& x, std::int64_t axis, const Taps& taps,
                 const ResizeOptions& o) {
  Tensor sum;
  const auto out = static_cast<std::int64_t>(taps.outside.size());
  Shape shape(static_cast<std::size_t>(x.ndim()), Size(1));
  shape[static_cast<std::size_t>(axis)] = Size(out);
  for (std::size_t k = 0; k < taps.positions.size(); ++k) {
    Tensor part = picked(c, x, axis, taps.positions[k]);
    if (o.mode != "nearest") part = part * c.constant(taps.weights[k], shape, x.dtype());
    sum = sum.defined() ? sum + part : part;
  }
  if (std::none_of(taps.outside.begin(), taps.outside.end(), [](bool b) { return b; })) return sum;
  const Numbers flags(taps.outside.begin(), taps.outside.end());
  return c.constant(flags, shape).ne(0).where(o.extrapolation, sum).cast(x.dtype());
}

struct ResizePlan {
  Numbers sizes;  // of the output, one per axis
  std::vector<double> scales;
};

ResizePlan plan_of(const Call& c, const Numbers& in, const Numbers& axes, const std::vector<double>& scales,
                   const Numbers& sizes) {
  ResizePlan plan{in, std::vector<double>(in.size(), 1.0)};
  if (!sizes.empty() && sizes.size() != axes.size())
    c.fail(fmt::format("{} sizes for {} axes", sizes.size(), axes.size()));
  if (sizes.empty() && scales.size() != axes.size())
    c.fail(fmt::format("{} scales for {} axes", scales.size(), axes.size()));
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  std::vector<double> wanted = scales;
  if (!sizes.empty()) {
    wanted.clear();
    for (std::size_t i = 0; i < axes.size(); ++i)
      wanted.push_back(static_cast<double>(sizes[i]) /
                       static_cast<double>(in[static_cast<std::size_t>(axes[i])]));
    if (policy != "stretch") {
      const double one = policy == "not_larger" ? *std::min_element(wanted.begin(), wanted.end())
                                                : *std::max_element(wanted.begin(), wanted.end());
      std::fill(wanted.begin(), wanted.end(), one);
    }
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    if (!(wanted[i] > 0) || wanted[i] > 1e6) c.fail(fmt::format("a scale of {}", wanted[i]));
    const double exact = static_cast<double>(in[axis]) * wanted[i];
    plan.scales[axis] = wanted[i];
    plan.sizes[axis] = sizes.empty()         ? static_cast<std::int64_t>(std::floor(exact))
                       : policy == "stretch" ? sizes[i]
                                             : static_cast<std::int64_t>(std::floor(exact + 0.5));
    if (plan.sizes[axis] < 0 || plan.sizes[axis] > kMostOnHost)
      c.fail(fmt::format("an output of {} along axis {}", plan.sizes[axis], axis));
  }
  return plan;
}

Tensor resize_axes(const Call& c, const Tensor& x, const ResizePlan& plan, const ResizeOptions& o,
                   const std::vector<double>& roi) {
  Tensor y = x;
  const std::size_t rank = plan.sizes.size();
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const auto at = static_cast<std::int64_t>(axis);
    const std::int64_t in = concrete(x.size(at), c, "an axis");
    const bool crops = o.transform == "tf_crop_and_resize";
    const double start = crops ? roi[axis] : 0, end = crops ? roi[axis + rank] : 1;
    if (plan.scales[axis] == 1 && plan.sizes[axis] == in && start == 0 && end == 1) continue;
    if (in == 0) c.fail("an empty axis cannot be resized");
    y = resampled(c, y, at, taps_of(o, in, plan.sizes[axis], plan.scales[axis], start, end), o);
  }
  return y;
}

Outputs resize(const Call& c) {
  const Tensor& x = c.x(0);
  const Numbers in = concrete_shape(x, c);
  const std::size_t scales_at = c.version < 11 ? 1 : 2;
  Numbers axes(in.size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  if (c.has_attribute("axes")) axes = c.axes(c.ints("axes"), x.ndim());
  ResizeOptions o{c.text("mode", "nearest"),
                  c.text("coordinate_transformation_mode", c.version < 11 ? "asymmetric" : "half_pixel"),
                  c.text("nearest_mode", c.version < 11 ? "floor" : "round_prefer_floor"),
                  c.number("cubic_coeff_a", -0.75),
                  c.number("extrapolation_value", 0.0),
                  c.integer("exclude_outside", 0) != 0,
                  c.integer("antialias", 0) != 0};
  if (o.mode == "bilinear") o.mode = "linear";
  if (o.mode != "nearest" && o.mode != "linear" && o.mode != "cubic")
    c.fail(fmt::format("there is no mode '{}'", formats::shown(o.mode)));
  const bool by_size = c.has(3) && c.version >= 11;
  const std::vector<double> scales =
      !by_size && c.has(scales_at) ? c.floats(scales_at) : std::vector<double>{};
  const ResizePlan plan = plan_of(c, in, axes, scales, by_size ? c.ints(3) : Numbers{});
  std::vector<double> roi(2 * in.size(), 0.0);
  std::fill(roi.begin() + static_cast<std::ptrdiff_t>(in.size()), roi.end(), 1.0);
  if (o.transform == "tf_crop_and_resize") {
    const std::vector<double> given = c.floats(1);
    if (given.size() != 2 * axes.size()) c.fail("the region to crop does not fit the axes");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      roi[static_cast<std::size_t>(axes[i])] = given[i];
      roi[static_cast<std::size_t>(axes[i]) + in.size()] = given[i + axes.size()];
    }
  }
  if (x.is_floating_point()) return {resize_axes(c, x, plan, o, roi)};
  if (o.mode == "nearest") return {resize_axes(c, x, plan, o, roi)};
  const Tensor y = resize_axes(c, x.cast(dtypes::float32), plan, o, roi);
  return {y.round()
              .clamp(static_cast<double>(dtypes::min(x.dtype()).to_int()),
                     static_cast<double>(dtypes::max(x.dtype()).to_int()))
              .cast(x.dtype())};
}

Outputs upsample(const Call& c) {
  const Tensor& x = c.x(0);
  const Numbers in = concrete_shape(x, c);
  Numbers axes(in.size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  ResizeOptions o{c.text("mode", "nearest"), "asymmetric", "floor"};
  if (o.mode == "bilinear") o.mode = "linear";
  std::vector<double> scales = c.version >= 9 ? c.floats(1) : c.floats("scales");
  if (c.version < 7 && scales.empty()) scales = {1, 1, c.number("height_scale"), c.number("width_scale")};
  return {resize_axes(c, x, plan_of(c, in, axes, scales, {}), o, {})};
}

// Where a normalised coordinate of -1 to 1 is on an axis.
Tensor unnormalised(const Tensor& g, std::int64_t size, bool corners) {
  const auto n = static_cast<double>(size);
  return corners ? (g + 1.0) * ((n - 1) / 2) : ((g + 1.0) * n - 1.0) / 2.0;
}

// A coordinate outside the image folded back into it.
Tensor reflected(const Tensor& at, double low, double high) {
  const double span = high - low;
  if (span <= 0) return at.zeros_like();
  const Tensor distance = (at - low).abs(), turns = (distance / span).floor(),
               extra = distance - turns * span;
  return turns.mod(2.0).eq(0).where(extra + low, (extra - high).neg());
}

struct GridOptions {
  std::string padding;
  bool corners;
};

Tensor fitted(const Tensor& at, std::int64_t n, const GridOptions& o) {
  const auto last = static_cast<double>(n - 1);
  if (o.padding == "border") return at.clamp(0.0, last);
  if (o.padding == "reflection")
    return (o.corners ? reflected(at, 0, last) : reflected(at, -0.5, last + 0.5)).clamp(0.0, last);
  return at;
}

// Values of x (images, channels, elements) at whole positions, one tensor per axis (images, points); zero
// outside.
Tensor values_at(const Tensor& x, const std::vector<Tensor>& at, const Numbers& sizes, const GridOptions& o) {
  Tensor flat, inside;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const Tensor p = fitted(at[i], sizes[i], o);
    const Tensor fits = p.ge(0) & p.le(sizes[i] - 1);
    const Tensor whole = p.clamp(0.0, static_cast<double>(sizes[i] - 1)).cast(dtypes::int64);
    flat = flat.defined() ? flat * sizes[i] + whole : whole;
    inside = inside.defined() ? inside & fits : fits;
  }
  const Size n = x.size(0), channels = x.size(1), points = flat.size(1);
  const Tensor index = flat.unsqueeze(1).expand({n, channels, points});
  return inside.unsqueeze(1).where(x.gather(2, index), 0).cast(x.dtype());
}

Outputs grid_sample(const Call& c) {
  const Tensor &x = c.x(0), &grid = c.x(1);
  const Numbers s = concrete_shape(x, c);
  const std::size_t rank = s.size() - 2;
  std::string mode = c.text("mode", c.version < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  if (s.size() < 3 || !(grid.size(-1) == static_cast<std::int64_t>(rank)))
    c.fail("the grid does not fit the image");
  const GridOptions o{c.text("padding_mode", "zeros"), c.integer("align_corners", 0) != 0};
  const Numbers sizes(s.begin() + 2, s.end());
  const Tensor points = grid.reshape({s[0], -1, Size(rank)}).cast(x.dtype());
  std::vector<Tensor> at;  // the grid's last axis has the image's last axis first
  for (std::size_t i = 0; i < rank; ++i)
    at.push_back(unnormalised(points.getitem({kEllipsis, static_cast<std::int64_t>(rank - 1 - i)}), sizes[i],
                              o.corners));
  const Tensor flat = x.reshape({s[0], s[1], product(sizes)});
  Tensor out;
  if (mode == "nearest") {
    for (Tensor& t : at) t = t.round();
    out = values_at(flat, at, sizes, o);
  } else {
    const int taps = mode == "cubic" ? 4 : 2;
    int all = 1;
    for (std::size_t i = 0; i < rank; ++i) all *= taps;
    for (int k = 0; k < all; ++k) {
      std::vector<Tensor> whole(rank);
      Tensor weight;
      int rest = k;
      for (std::size_t i = 0; i < rank; ++i) {
        const Tensor low = at[i].floor(),
                     position = low + static_cast<double>(rest % taps - (taps == 4 ? 1 : 0));
        const Tensor d = (at[i] - position).abs();
        const double a = -0.75;
        const Tensor w = taps == 2 ? 1.0 - d
                                   : d.le(1).where(((d * (a + 2) - (a + 3)) * d * d) + 1.0,
                                                   ((d * a - 5 * a) * d + 8 * a) * d - 4 * a);
        weight = weight.defined() ? weight * w : w;
        whole[i] = position;
        rest /= taps;
      }
      const Tensor part = values_at(flat, whole, sizes, o) * weight.unsqueeze(1);
      out = out.defined() ? out + part : part;
    }
  }
  Shape shape = {s[0], s[1]};
  for (std::int64_t i = 1; i + 1 < grid.ndim(); ++i) shape.push_back(grid.size(i));
  return {out.reshape(shape)};
}

// Average (or greatest) of bilinear samples in each cell of each region.
Outputs roi_align(const Call& c) {
  const Tensor &x = c.x(0), &rois = c.x(1);
  const Numbers s = concrete_shape(x, c);
  const std::int64_t oh = c.integer("output_height", 1), ow = c.integer("output_width", 1),
                     ratio = c.integer("sampling_ratio", 0);
  const double scale = c.number("spatial_scale", 1.0);
  const bool half = c.version >= 16 && c.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const bool greatest = c.text("mode", "avg") == "max";
  if (ratio <= 0) c.not_supported("a sampling_ratio of 0 depends on the regions");
  const std::int64_t regions = concrete(rois.size(0), c, "the number of regions");
  if (s.size() != 4 || oh < 1 || ow < 1 || oh * ow * ratio * ratio > (1 << 24))
    c.fail("the sizes of the regions are out of range");
  const double shift = half ? 0.5 : 0;
  auto edge = [&](std::int64_t k) { return rois.getitem({Slice{}, Slice{k, k + 1}}) * scale - shift; };
  const Tensor left = edge(0), top = edge(1);
  Tensor width = edge(2) - left, height = edge(3) - top;
  if (!half) {
    width = width.maximum(1.0);
    height = height.maximum(1.0);
  }
  auto positions = [&](const Tensor& start, const Tensor& size, std::int64_t cells) {
    const Tensor steps = (Tensor::arange(cells * ratio, {.dtype = x.dtype(), .device = c.device()}) + 0.5) /
                         static_cast<double>(cells * ratio);
    return start + size * steps.unsqueeze(0);  // (regions, cells * ratio)
  };
  const std::int64_t rows = oh * ratio, columns = ow * ratio;
  const Tensor ys = positions(top, height, oh)
                        .reshape({regions, rows, 1})
                        .expand({regions, rows, columns})
                        .reshape({regions, -1});
  const Tensor xs = positions(left, width, ow)
                        .reshape({regions, 1, columns})
                        .expand({regions, rows, columns})
                        .reshape({regions, -1});
  // Samples just outside the image are taken from its border, others are zero.
  const Tensor valid =
      ys.ge(-1.0) & ys.le(static_cast<double>(s[2])) & xs.ge(-1.0) & xs.le(static_cast<double>(s[3]));
  const Tensor y = ys.clamp(0.0, static_cast<double>(s[2] - 1)),
               z = xs.clamp(0.0, static_cast<double>(s[3] - 1));
  const Tensor images = x.getitem({c.x(2)}).reshape({regions, s[1], s[2] * s[3]});
  Tensor sum;
  for (int dy = 0; dy < 2; ++dy)
    for (int dx = 0; dx < 2; ++dx) {
      const Tensor row = (y.floor() + dy).clamp(0.0, static_cast<double>(s[2] - 1)),
                   column = (z.floor() + dx).clamp(0.0, static_cast<double>(s[3] - 1));
      const Tensor wy = dy == 1 ? y - y.floor() : 1.0 - (y - y.floor()),
                   wx = dx == 1 ? z - z.floor() : 1.0 - (z - z.floor());
      const Tensor at = (row * static_cast<double>(s[3]) + column)
                            .cast(dtypes::int64)
                            .unsqueeze(1)
                            .expand({regions, s[1], rows * columns});
      const Tensor part = images.gather(2, at) * valid.where(wy * wx, 0).unsqueeze(1);
      if (greatest)
        sum = sum.defined() ? sum.maximum(part) : part;
      else
        sum = sum.defined() ? sum + part : part;
    }
  const Tensor cells = sum.reshape({regions, s[1], oh, ratio, ow, ratio});
  return {(greatest ? cells.max({3, 5}) : cells.mean({3, 5})).cast(x.dtype())};
}

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

double overlap(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top),
               width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const double shared = height * width, all = a.area() + b.area() - shared;
  return all <= 0 ? 0 : shared / all;
}

// The number of boxes that stay depends on them, so it is counted on the host.
Outputs non_max_suppression(const Call& c) {
  const Numbers s = concrete_shape(c.x(1), c);  // (batches, classes, boxes)
  const std::vector<double> boxes = c.floats(std::size_t(0)), scores = c.floats(std::size_t(1));
  const std::int64_t most = c.has(2) ? c.integer(std::size_t(2)) : 0;
  const double share = c.has(3) ? c.number(std::size_t(3)) : 0,
               least = c.has(4) ? c.number(std::size_t(4)) : -INFINITY;
  const bool centers = c.integer("center_point_box", 0) != 0;
  if (s.size() != 3 || boxes.size() != static_cast<std::size_t>(s[0] * s[2] * 4))
    c.fail("the boxes do not fit the scores");
  auto box_at = [&](std::int64_t batch, std::int64_t i) {
    const double* b = &boxes[static_cast<std::size_t>((batch * s[2] + i) * 4)];
    if (centers) return Box{b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
    return Box{std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
  };
  Numbers kept;
  for (std::int64_t batch = 0; batch < s[0]; ++batch)
    for (std::int64_t k = 0; k < s[1]; ++k) {
      Numbers order;
      const auto score = [&](std::int64_t i) {
        return scores[static_cast<std::size_t>((batch * s[1] + k) * s[2] + i)];
      };
      for (std::int64_t i = 0; i < s[2]; ++i)
        if (score(i) > least) order.push_back(i);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int64_t a, std::int64_t b) { return score(a) > score(b); });
      std::vector<Box> chosen;
      for (std::int64_t i : order) {
        if (static_cast<std::int64_t>(chosen.size()) >= most) break;
        const Box box = box_at(batch, i);
        if (std::any_of(chosen.begin(), chosen.end(),
                        [&](const Box& other) { return overlap(box, other) > share; }))
          continue;
        chosen.push_back(box);
        kept.insert(kept.end(), {batch, k, i});
      }
    }
  const Size count(kept.size() / 3);
  if (kept.empty()) return {Tensor::empty({0, 3}, {.dtype = dtypes::int64, .device = c.device()})};
  return {c.constant(kept, {count, 3})};
}

// Coordinates of every point of an image, mapped by a matrix of its own.
Outputs affine_grid(const Call& c) {
  const Tensor& theta = c.x(0);
  const Numbers size = c.ints(1);
  const bool corners = c.integer("align_corners", 0) != 0;
  const std::size_t rank = size.size() - 2;
  if (size.size() < 4) c.fail("the size of an image is needed");
  const Numbers spatial(size.begin() + 2, size.end());
  const std::int64_t points = product(spatial);
  if (points < 0 || points > (std::int64_t(1) << 26)) c.fail("the image is too large");
  std::vector<double> base;
  for (std::int64_t p = 0; p < points; ++p) {
    std::int64_t rest = p;
    for (std::size_t i = rank; i-- > 0;) {  // last axis first, as the matrix has them
      const auto n = static_cast<double>(spatial[i]), at = static_cast<double>(rest % spatial[i]);
      base.push_back(corners ? (n > 1 ? -1 + 2 * at / (n - 1) : -1) : (2 * at + 1) / n - 1);
      rest /= spatial[i];
    }
    base.push_back(1);
  }
  const Tensor homogeneous = c.constant(base, {points, Size(rank + 1)}, theta.dtype());
  Shape shape = {size[0]};
  shape.insert(shape.end(), spatial.begin(), spatial.end());
  shape.emplace_back(rank);
  return {homogeneous.unsqueeze(0).matmul(theta.permute({0, 2, 1})).reshape(shape)};
}

// clang-format off
const OpRow kRows[] = {
    {"Resize", 10, resize}, {"Upsample", 1, upsample}, {"GridSample", 16, grid_sample}, {"RoiAlign", 10, roi_align},
    {"NonMaxSuppression", 10, non_max_suppression}, {"AffineGrid", 20, affine_grid},
};
// clang-format on

}  // namespace

OpTable image_ops() { return {"", "images", kRows}; }

}  // namespace lathe::onnx
