// Operators that move elements and compute nothing.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

Outputs reshape(const Call& c) {
  std::vector<Size> sizes;
  if (c.version < 5) {
    const Numbers given = c.ints("shape");
    sizes.assign(given.begin(), given.end());
  } else {
    sizes = c.sizes(1);
  }
  const bool keep = c.integer("allowzero", 0) == 0;
  if (c.value(0).kind() == Value::Kind::Strings) {
    Strings out = c.value(0).strings();
    const auto count = static_cast<std::int64_t>(out.values.size());
    Numbers shape;
    std::int64_t rest = 1;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      shape.push_back(sizes[i] == 0 && keep && i < out.shape.size() ? out.shape[i] : sizes[i].value());
      if (shape.back() > 0) rest *= shape.back();
    }
    for (std::int64_t& s : shape)
      if (s == -1) s = count / std::max<std::int64_t>(rest, 1);
    if (product(shape) != count) c.fail("the shapes hold different numbers of strings");
    out.shape = shape;
    return {out};
  }
  const Tensor& x = c.x(0);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (keep && sizes[i] == 0) {
      if (static_cast<std::int64_t>(i) >= x.ndim())
        c.fail(fmt::format("size {} is to be copied from an axis the input does not have", i));
      sizes[i] = x.size(static_cast<std::int64_t>(i));
    }
  return {x.reshape(sizes)};
}

Outputs flatten(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t rank = x.ndim(), given = c.integer("axis", 1), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank) c.fail(fmt::format("axis {} is outside a tensor with {} axes", given, rank));
  Size rows = 1, columns = 1;
  for (std::int64_t i = 0; i < rank; ++i)
    (i < axis ? rows : columns) = (i < axis ? rows : columns) * x.size(i);
  return {x.reshape({rows, columns})};
}

Outputs transpose(const Call& c) {
  const Tensor& x = c.x(0);
  Numbers order(static_cast<std::size_t>(x.ndim()));
  std::iota(order.rbegin(), order.rend(), 0);
  return {x.permute(c.axes(c.ints("perm", order), x.ndim()))};
}

Outputs squeeze(const Call& c) {
  const Tensor& x = c.x(0);
  const auto given = c.ints_of(1, "axes");
  const Numbers axes = given ? c.axes(*given, x.ndim()) : Numbers{};
  Shape shape;
  for (std::int64_t i = 0; i < x.ndim(); ++i) {
    const bool listed = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (listed && !(x.size(i) == 1))
      c.fail(fmt::format("axis {} has size {}, only an axis of size 1 can be removed", i, x.size(i).str()));
    if (!(given ? listed : x.size(i) == 1)) shape.push_back(x.size(i));
  }
  return {x.reshape(shape)};
}

Outputs unsqueeze(const Call& c) {
  const Tensor& x = c.x(0);
  const auto given = c.ints_of(1, "axes");
  if (!given) c.fail("the axes are missing");
  const std::int64_t rank = x.ndim() + static_cast<std::int64_t>(given->size());
  const Numbers axes = c.axes(*given, rank);
  Shape shape;
  std::int64_t next = 0;
  for (std::int64_t i = 0; i < rank; ++i)
    shape.push_back(std::find(axes.begin(), axes.end(), i) != axes.end() ? Size(1) : x.size(next++));
  return {x.reshape(shape)};
}

Outputs concat_strings(const Call& c) {
  Strings out = c.value(0).strings();
  if (out.shape.size() != 1) c.not_supported("strings of more than one axis cannot be joined");
  for (std::size_t i = 1; i < c.inputs.size(); ++i)
    for (const std::string& s : c.value(i).strings().values) out.values.push_back(s);
  out.shape = {static_cast<std::int64_t>(out.values.size())};
  return {out};
}

Outputs concat(const Call& c) {
  if (c.inputs.empty()) c.fail("there is nothing to join");
  if (c.value(0).kind() == Value::Kind::Strings) return concat_strings(c);
  const std::vector<Tensor> all = c.tensors();
  return {all.size() == 1
              ? all[0]
              : Tensor::cat(all, c.axis(c.integer("axis", c.version < 4 ? std::optional<std::int64_t>(1)
                                                                        : std::nullopt),
                                        all[0].ndim()))};
}

// The sizes of the parts: given, or equal but for the last.
Numbers split_sizes(const Call& c, std::int64_t size) {
  if (const auto given = c.ints_of(1, "split")) return *given;
  const std::int64_t parts = c.integer("num_outputs", static_cast<std::int64_t>(c.node.outputs.size()));
  if (parts != static_cast<std::int64_t>(c.node.outputs.size()))
    c.fail(fmt::format("{} parts for {} outputs", parts, c.node.outputs.size()));
  if (parts < 1) c.fail("a tensor cannot be split into 0 parts");
  const std::int64_t each = (size + parts - 1) / parts;
  Numbers sizes;
  for (std::int64_t i = 0; i < parts; ++i)
    sizes.push_back(std::clamp<std::int64_t>(size - i * each, 0, each));
  return sizes;
}

Outputs split(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t axis = c.axis(c.integer("axis", 0), x.ndim());
  const std::int64_t size = concrete(x.size(axis), c, "the axis to split");
  Outputs out;
  std::int64_t at = 0;
  for (std::int64_t part : split_sizes(c, size)) {
    if (part < 0 || part > size - at) c.fail(fmt::format("the parts do not fit an axis of {}", size));
    out.emplace_back(sliced(x, axis, at, at + part));
    at += part;
  }
  if (at != size) c.fail(fmt::format("the parts have {} elements in all, the axis has {}", at, size));
  return out;
}

// One axis of a slice, with ONNX's clamping; numbers beyond the axis mean its ends.
Slice slice_of(const Call& c, const Size& size, const Size& start, const Size& end, std::int64_t step) {
  if (step == 0) c.fail("a step is zero");
  constexpr std::int64_t kFar = std::int64_t(1) << 40;
  if (size.is_symbolic() || start.is_symbolic() || end.is_symbolic()) {
    if (step < 0) c.not_supported("a symbolic axis cannot be sliced backwards");
    Slice slice{start, end, step};
    if (!end.is_symbolic() && end.value() > kFar) slice.stop = {};
    return slice;
  }
  const std::int64_t n = size.value(), low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  auto placed = [&](std::int64_t at) { return std::clamp(at < 0 ? std::max(at, -kFar) + n : at, low, high); };
  const std::int64_t first = placed(start.value()), last = placed(end.value());
  const std::int64_t stride = std::clamp(step, -std::max<std::int64_t>(n, 1), std::max<std::int64_t>(n, 1));
  Slice slice{first, last, stride};
  if (step > 0 ? first >= last : first <= last) return Slice{0, 0, 1};
  if (step < 0 && last < 0) slice.stop = {};
  return slice;
}

Outputs slice(const Call& c) {
  const Tensor& x = c.x(0);
  std::vector<Size> starts, ends;
  Numbers axes, steps;
  if (c.version < 10) {
    for (std::int64_t v : c.ints("starts")) starts.emplace_back(v);
    for (std::int64_t v : c.ints("ends")) ends.emplace_back(v);
    axes = c.ints("axes");
  } else {
    starts = c.sizes(1);
    ends = c.sizes(2);
    if (c.has(3)) axes = c.ints(3);
    if (c.has(4)) steps = c.ints(4);
  }
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.fail("starts, ends, axes and steps have different lengths");
  axes = c.axes(axes, x.ndim());
  std::vector<Index> index(static_cast<std::size_t>(x.ndim()), Index(Slice{}));
  for (std::size_t i = 0; i < axes.size(); ++i)
    index[static_cast<std::size_t>(axes[i])] = slice_of(c, x.size(axes[i]), starts[i], ends[i], steps[i]);
  return {index.empty() ? x : x.getitem(index)};
}

// Where each element of a padded axis comes from.
Numbers mirrored(std::int64_t n, std::int64_t before, std::int64_t after, const std::string& mode) {
  Numbers out;
  for (std::int64_t i = -before; i < n + after; ++i) {
    if (mode == "edge") out.push_back(std::clamp<std::int64_t>(i, 0, n - 1));
    if (mode == "wrap") out.push_back(((i % n) + n) % n);
    if (mode == "reflect") {
      const std::int64_t period = std::max<std::int64_t>(2 * (n - 1), 1),
                         at = ((i % period) + period) % period;
      out.push_back(at < n ? at : period - at);
    }
  }
  return out;
}

Outputs pad(const Call& c) {
  const Tensor& x = c.x(0);
  const std::string mode = c.text("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    c.fail(fmt::format("there is no mode '{}'", formats::shown(mode)));
  const Numbers pads = c.version < 2 ? c.ints("paddings") : c.version < 11 ? c.ints("pads") : c.ints(1);
  Numbers axes(static_cast<std::size_t>(x.ndim()));
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has(3)) axes = c.axes(c.ints(3), x.ndim());
  if (pads.size() != 2 * axes.size())
    c.fail(fmt::format("{} paddings for {} axes", pads.size(), axes.size()));
  constexpr std::int64_t kMost = std::int64_t(1) << 40;
  for (std::int64_t p : pads)
    if (p > kMost || p < -kMost) c.fail(fmt::format("a padding of {} is too large", p));
  Tensor out = x;
  if (mode != "constant") {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const std::int64_t before = pads[i], after = pads[i + axes.size()],
                         n = concrete(x.size(axes[i]), c, "a padded axis");
      if (before == 0 && after == 0) continue;
      if (n + before + after > (1 << 26))
        c.fail(fmt::format("a padding of {} and {} is too large", before, after));
      if (n == 0) c.fail("an empty axis cannot be padded with its own elements");
      out = picked(c, out, axes[i], mirrored(n, before, after, mode));
    }
    return {out};
  }
  std::vector<std::pair<Size, Size>> widths(static_cast<std::size_t>(x.ndim()), {Size(0), Size(0)});
  std::vector<Index> cut(static_cast<std::size_t>(x.ndim()), Index(Slice{}));
  bool cuts = false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    const std::int64_t before = pads[i], after = pads[i + axes.size()];
    if (before < 0 || after < 0) {
      cuts = true;
      cut[axis] = Slice{Size(std::max<std::int64_t>(-before, 0)),
                        x.size(axes[i]) - Size(std::max<std::int64_t>(-after, 0))};
    }
    widths[axis] = {Size(std::max<std::int64_t>(before, 0)), Size(std::max<std::int64_t>(after, 0))};
  }
  if (cuts) out = out.getitem(cut);
  if (c.version < 11) return {out.pad(widths, c.number("value", 0.0)).cast(x.dtype())};
  if (!c.has(2)) return {out.pad(widths, 0)};
  const Value& fill = c.value(2);
  if (fill.known() && fill.known()->count() == 1)
    return {fill.known()->is_float() ? out.pad(widths, fill.known()->floats[0])
                                     : out.pad(widths, fill.known()->sizes[0].value())};
  // The value is on the device: where the padding is, it is taken.
  const Tensor inside =
      Tensor::full(out.shape(), true, {.dtype = dtypes::bool_, .device = c.device()}).pad(widths, false);
  return {inside.where(out.pad(widths, 0), c.x(2).reshape({}))};
}

Outputs tile(const Call& c) {
  const Tensor& x = c.x(0);
  if (c.version < 6) {
    Numbers times(static_cast<std::size_t>(x.ndim()), 1);
    times[static_cast<std::size_t>(c.axis(c.integer(std::size_t(2)), x.ndim()))] = c.integer(std::size_t(1));
    return {x.repeat(times)};
  }
  const Numbers times = c.ints(1);
  if (static_cast<std::int64_t>(times.size()) != x.ndim())
    c.fail(fmt::format("{} repeats for {} axes", times.size(), x.ndim()));
  return {x.repeat(times)};
}

Outputs expand(const Call& c) {
  const Tensor& x = c.x(0);
  std::vector<Size> shape = c.sizes(1);
  const auto rank = static_cast<std::size_t>(x.ndim());
  while (shape.size() < rank) shape.insert(shape.begin(), Size(1));
  for (std::size_t i = 0; i < rank; ++i) {
    Size& wanted = shape[shape.size() - 1 - i];
    const Size own = x.size(static_cast<std::int64_t>(rank - 1 - i));
    if (wanted == 1) wanted = own;
  }
  Shape whole(shape.size() - rank, Size(1));
  whole.insert(whole.end(), x.shape().begin(), x.shape().end());
  return {x.reshape(whole).expand(shape)};
}

Outputs depth_to_space(const Call& c) {
  const Tensor& x = c.x(0);
  if (x.ndim() != 4) c.fail("four axes are needed");
  const std::int64_t b = c.integer("blocksize"), depth = concrete(x.size(1), c, "the channels");
  if (b < 1 || depth % (b * b) != 0)
    c.fail(fmt::format("{} channels are not divisible by blocks of {}", depth, b));
  const Size n = x.size(0), h = x.size(2), w = x.size(3), d = depth / (b * b);
  const bool columns = c.text("mode", "DCR") == "CRD";
  const Tensor blocks = columns ? x.reshape({n, d, b, b, h, w}).permute({0, 1, 4, 2, 5, 3})
                                : x.reshape({n, b, b, d, h, w}).permute({0, 3, 4, 1, 5, 2});
  return {blocks.reshape({n, d, h * b, w * b})};
}

Outputs space_to_depth(const Call& c) {
  const Tensor& x = c.x(0);
  if (x.ndim() != 4) c.fail("four axes are needed");
  const std::int64_t b = c.integer("blocksize");
  const Numbers s = concrete_shape(x, c);
  if (b < 1 || s[2] % b != 0 || s[3] % b != 0)
    c.fail(fmt::format("the image is not divisible by blocks of {}", b));
  const Ints order = c.text("mode", "DCR") == "CRD" ? Ints{0, 1, 3, 5, 2, 4} : Ints{0, 3, 5, 1, 2, 4};
  return {x.reshape({s[0], s[1], s[2] / b, b, s[3] / b, b})
              .permute(order)
              .reshape({s[0], s[1] * b * b, s[2] / b, s[3] / b})};
}

Outputs trilu(const Call& c) {
  const std::int64_t k = c.has(1) ? c.integer(std::size_t(1)) : 0;
  const Tensor& x = c.x(0);
  const std::int64_t far = 1 << 30, diagonal = std::clamp(k, -far, far);
  return {c.integer("upper", 1) != 0 ? x.triu(diagonal) : x.tril(diagonal)};
}

// Crops or pads around the middle.
Outputs center_crop_pad(const Call& c) {
  Tensor x = c.x(0);
  const Numbers wanted = c.ints(1);
  Numbers axes(static_cast<std::size_t>(x.ndim()));
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has_attribute("axes")) axes = c.axes(c.ints("axes"), x.ndim());
  if (wanted.size() != axes.size()) c.fail(fmt::format("{} sizes for {} axes", wanted.size(), axes.size()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t have = concrete(x.size(axes[i]), c, "an axis"), want = wanted[i],
                       gap = std::abs(have - want), before = gap / 2;
    if (want < 0) c.fail("a size is negative");
    x = have >= want ? sliced(x, axes[i], before, before + want) : padded(x, axes[i], before, gap - before);
  }
  return {x};
}

Outputs reverse_sequence(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t time = c.integer("time_axis", 0), batch = c.integer("batch_axis", 1);
  if (time + batch != 1 || time * batch != 0) c.fail("the axes must be 0 and 1");
  const Tensor steps = Tensor::arange(x.size(time).value(), {.dtype = dtypes::int64, .device = c.device()});
  const Tensor at = time == 0 ? steps.unsqueeze(1) : steps.unsqueeze(0);
  const Tensor length = c.x(1).cast(dtypes::int64).unsqueeze(time);
  Tensor index = at.lt(length).where(length - 1 - at, at);
  Shape flat = index.shape(), full = x.shape();
  while (flat.size() < full.size()) flat.emplace_back(1);
  return {x.gather(time, index.reshape(flat).expand(full))};
}

// clang-format off
const OpRow kRows[] = {
    {"Reshape", 1, reshape}, {"Flatten", 1, flatten}, {"Transpose", 1, transpose}, {"Squeeze", 1, squeeze},
    {"Unsqueeze", 1, unsqueeze}, {"Concat", 1, concat}, {"Split", 1, split}, {"Slice", 1, slice}, {"Pad", 1, pad},
    {"Tile", 1, tile, Trait::Lazy}, {"Expand", 8, expand, Trait::Lazy}, {"DepthToSpace", 1, depth_to_space},
    {"SpaceToDepth", 1, space_to_depth}, {"Trilu", 14, trilu}, {"CenterCropPad", 18, center_crop_pad},
    {"ReverseSequence", 10, reverse_sequence},
};
// clang-format on

}  // namespace

Tensor picked(const Call& c, const Tensor& x, std::int64_t axis, const Numbers& positions) {
  std::vector<Index> index(static_cast<std::size_t>(axis), Index(Slice{}));
  index.emplace_back(c.constant(positions, {Size(positions.size())}));
  return x.getitem(index);
}

Tensor sliced(const Tensor& x, std::int64_t axis, const Size& begin, const Size& end) {
  std::vector<std::pair<Size, Size>> bounds;
  for (std::int64_t i = 0; i < x.ndim(); ++i)
    bounds.emplace_back(i == axis ? begin : Size(0), i == axis ? end : x.size(i));
  return x.shrink(bounds);
}

Tensor padded(const Tensor& x, std::int64_t axis, std::int64_t before, std::int64_t after, Number value) {
  std::vector<std::pair<Size, Size>> widths(static_cast<std::size_t>(x.ndim()), {Size(0), Size(0)});
  widths[static_cast<std::size_t>(axis)] = {Size(before), Size(after)};
  return x.pad(widths, value);
}

Tensor along(const Tensor& list, std::int64_t axis, std::int64_t rank) {
  Shape shape(static_cast<std::size_t>(rank), Size(1));
  shape[static_cast<std::size_t>(axis)] = list.numel();
  return list.reshape(shape);
}

OpTable movement_ops() { return {"", "movement", kRows}; }

}  // namespace lathe::onnx
