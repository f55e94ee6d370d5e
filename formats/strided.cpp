#include "formats/strided.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace lathe::formats {
namespace {

struct Axis {
  std::int64_t size, stride;
  std::size_t place;
};

// Cuts the last axis of `t`, from element `first` on, into the axes, which are ordered by falling stride:
// each step takes a window, splits it into rows of the stride's length and goes on inside a row. Nothing
// where a window would not fit: then the axes overlap.
std::optional<Tensor> nested(Tensor t, std::int64_t first, const std::vector<Axis>& axes) {
  Shape shape;
  for (const Axis& axis : axes) {
    const std::int64_t length = t.size(-1).value();
    if (axis.size > length / axis.stride) return std::nullopt;
    const std::int64_t window = axis.size * axis.stride;
    // As far right as it may begin; what is left of `first` is looked for inside the rows.
    const std::int64_t begin = std::min(first, length - window);
    first -= begin;
    if (first >= axis.stride) return std::nullopt;
    t = t.getitem({kEllipsis, Slice{begin, begin + window}});
    shape.emplace_back(axis.size);
    shape.emplace_back(axis.stride);
    t = t.reshape(shape);
    shape.pop_back();
  }
  return t.getitem({kEllipsis, first});
}

Tensor gathered(const Tensor& flat, std::int64_t first, const std::vector<Axis>& axes) {
  const Tensor here = flat.to(default_device());
  Tensor index = Tensor::full({}, first, {.dtype = dtypes::int64, .device = here.device()});
  for (const Axis& axis : axes)
    index =
        index.unsqueeze(-1) +
        Tensor::arange(Number(axis.size), {.dtype = dtypes::int64, .device = here.device()}) * axis.stride;
  return here[index];
}

}  // namespace

std::string strided_problem(const Strided& layout, std::int64_t elements) {
  constexpr std::size_t kMostAxes = 64;
  if (layout.sizes.size() != layout.strides.size())
    return fmt::format("it has {} sizes and {} strides", layout.sizes.size(), layout.strides.size());
  if (layout.sizes.size() > kMostAxes) return fmt::format("it has {} axes", layout.sizes.size());
  unsigned __int128 last = static_cast<unsigned __int128>(std::max<std::int64_t>(layout.offset, 0)),
                    count = 1;
  bool none = false;
  for (std::size_t i = 0; i < layout.sizes.size(); ++i) {
    if (layout.sizes[i] < 0 || layout.strides[i] < 0) return "a size or stride is negative";
    none |= layout.sizes[i] == 0;
    const auto size = static_cast<unsigned __int128>(std::max<std::int64_t>(layout.sizes[i], 1));
    count *= size;
    if (count > INT64_MAX / 8) return "its elements cannot be counted";
    last += (size - 1) * static_cast<unsigned __int128>(layout.strides[i]);
  }
  if (layout.offset < 0 || (!none && last >= static_cast<unsigned __int128>(elements)))
    return fmt::format("it reaches beyond the {} elements of its storage", elements);
  return "";
}

Tensor strided(const Tensor& flat, const Strided& layout) {
  Shape shape(layout.sizes.begin(), layout.sizes.end()), ones;
  if (std::find(layout.sizes.begin(), layout.sizes.end(), 0) != layout.sizes.end())
    return Tensor::empty(shape, {.dtype = flat.dtype()});
  std::vector<Axis> axes;  // those that move through the list
  for (std::size_t i = 0; i < layout.sizes.size(); ++i)
    if (layout.sizes[i] > 1 && layout.strides[i] > 0) axes.push_back({layout.sizes[i], layout.strides[i], i});
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  const std::optional<Tensor> view = nested(flat, layout.offset, axes);
  Tensor t = view ? *view : gathered(flat, layout.offset, axes);
  std::vector<std::int64_t> order(axes.size());
  std::vector<std::size_t> by_place(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) by_place[i] = i;
  std::sort(by_place.begin(), by_place.end(),
            [&](std::size_t a, std::size_t b) { return axes[a].place < axes[b].place; });
  for (std::size_t i = 0; i < axes.size(); ++i) order[i] = static_cast<std::int64_t>(by_place[i]);
  if (order.size() > 1) t = t.permute(order);
  for (std::size_t i = 0; i < layout.sizes.size(); ++i)
    ones.emplace_back(layout.strides[i] > 0 ? layout.sizes[i] : 1);
  t = t.reshape(ones);
  return ones == shape ? t : t.expand(shape);
}

}  // namespace lathe::formats
