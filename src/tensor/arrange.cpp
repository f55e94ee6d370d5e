// Movement made of movement: joining, splitting, repeating, rolling, diagonals, windows, padding modes.
#include <algorithm>

#include <fmt/format.h>

#include "tensor/impl.h"

namespace lathe {
namespace {

// The part [begin, end) of one axis.
Tensor cut(const Tensor& x, std::int64_t axis, const Size& begin, const Size& end) {
  std::vector<std::pair<Size, Size>> bounds;
  for (const Size& s : x.shape()) bounds.emplace_back(0, s);
  bounds[static_cast<std::size_t>(axis)] = {begin, end};
  return x.shrink(bounds);
}

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

Tensor Tensor::cat(const std::vector<Tensor>& tensors, std::int64_t axis) {
  Scope scope;
  if (tensors.empty()) throw UserError("cat", "there is nothing to join");
  const Tensor& first = tensors[0];
  if (first.ndim() == 0)
    throw IndexError("cat", "tensors without axes cannot be joined").help("stack() gives them one");
  axis = resolve_axis(axis, first.ndim(), "cat");
  DataType dtype = first.dtype();
  Size total = 0;
  for (const Tensor& t : tensors) {
    check_same_device("cat", first, t);
    bool fits = t.ndim() == first.ndim() && t.ndim() > 0;
    for (std::int64_t i = 0; fits && i < t.ndim(); ++i)
      fits = i == axis || t.shape()[at(i)] == first.shape()[at(i)];
    if (!fits)
      throw UserError("cat", fmt::format("{} and {} cannot be joined along axis {}", to_string(first.shape()),
                                         to_string(t.shape()), axis))
          .help("all other axes must be equal");
    dtype = least_upper_dtype(dtype, t.dtype());
    total = total + t.shape()[at(axis)];
  }
  if (tensors.size() == 1) return as_own(first);
  // Every element of the result looks at every part, so many parts are joined in groups of few, which are
  // equal kernels where the parts are.
  constexpr std::size_t kPartsAtOnce = 32;
  if (tensors.size() > kPartsAtOnce) {
    std::vector<Tensor> groups;
    for (std::size_t begin = 0; begin < tensors.size(); begin += kPartsAtOnce) {
      const std::size_t end = std::min(begin + kPartsAtOnce, tensors.size());
      const std::vector<Tensor> group(tensors.begin() + static_cast<std::ptrdiff_t>(begin),
                                      tensors.begin() + static_cast<std::ptrdiff_t>(end));
      groups.push_back(cat(group, axis).cast(dtype).contiguous());
    }
    return cat(groups, axis);
  }
  // Each part is padded to the whole and chosen where it is. (Adding the padded parts would lose the sign
  // of -0.)
  std::optional<Tensor> out;
  Size begin = 0;
  for (const Tensor& t : tensors) {
    Size size = t.shape()[at(axis)], end = begin + size;
    std::vector<std::pair<Size, Size>> padding(at(t.ndim()), {0, 0});
    padding[at(axis)] = {begin, total - end};
    begin = end;
    if (size == 0) continue;
    Tensor whole = t.cast(dtype).pad(padding);
    if (!out) {
      out = whole;
      continue;
    }
    Tensor here = Tensor::full(t.shape(), true, {.dtype = dtypes::bool_, .device = t.device()}).pad(padding);
    out = here.where(whole, *out);
  }
  return out ? *out : first.cast(dtype);
}

Tensor Tensor::stack(const std::vector<Tensor>& tensors, std::int64_t axis) {
  Scope scope;
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) {
    if (t.shape() != tensors[0].shape())
      throw UserError("stack", fmt::format("shapes {} and {} differ", to_string(tensors[0].shape()),
                                           to_string(t.shape())));
    parts.push_back(t.unsqueeze(axis));
  }
  if (parts.empty()) throw UserError("stack", "there is nothing to stack");
  return cat(parts, resolve_axis(axis, parts[0].ndim(), "stack"));
}

std::vector<Tensor> Tensor::split(const std::vector<std::int64_t>& sizes, std::int64_t axis) const {
  Scope scope;
  axis = resolve_axis(axis, ndim(), "split");
  std::int64_t n = size(axis), sum = 0;
  for (std::int64_t s : sizes) {
    if (s < 0) throw UserError("split", fmt::format("the size of a part is {}", s));
    sum += s;
  }
  if (sum != n)
    throw UserError(
        "split", fmt::format("sizes add up to {}, axis {} of {} has {}", sum, axis, to_string(shape()), n));
  std::vector<Tensor> out;
  std::int64_t begin = 0;
  for (std::int64_t s : sizes) {
    out.push_back(cut(*this, axis, begin, begin + s));
    begin += s;
  }
  return out;
}

std::vector<Tensor> Tensor::split(std::int64_t part, std::int64_t axis) const {
  std::int64_t n = size(axis);
  if (part < 0 || (part == 0 && n > 0))
    throw UserError("split", fmt::format("the size of a part is {}", part));
  std::vector<std::int64_t> sizes;
  for (std::int64_t begin = 0; begin < n; begin += part) sizes.push_back(std::min(part, n - begin));
  if (sizes.empty()) sizes.push_back(0);
  return split(sizes, axis);
}

std::vector<Tensor> Tensor::chunk(std::int64_t parts, std::int64_t axis) const {
  if (parts <= 0) throw UserError("chunk", fmt::format("{} parts", parts));
  std::int64_t n = size(axis);
  // Of nothing there are as many parts as are asked for, as in both peers.
  if (n == 0) return split(std::vector<std::int64_t>(static_cast<std::size_t>(parts), 0), axis);
  return split((n + parts - 1) / parts, axis);
}

Tensor Tensor::repeat(const Ints& times) const {
  Scope scope;
  if (static_cast<std::int64_t>(times.size()) < ndim())
    throw UserError("repeat",
                    fmt::format("{} numbers for the {} axes of {}", times.size(), ndim(), to_string(shape())))
        .help("give one number per axis; 1 leaves the axis unchanged");
  const auto rank = static_cast<std::int64_t>(times.size());
  Shape base(at(rank), Size(1)), split_shape, wide, joined;
  std::copy(shape().begin(), shape().end(), base.begin() + (rank - ndim()));
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t n = times[at(i)];
    if (n < 0) throw UserError("repeat", fmt::format("an axis is repeated {} times", n));
    split_shape.insert(split_shape.end(), {Size(1), base[at(i)]});
    wide.insert(wide.end(), {Size(n), base[at(i)]});
    joined.push_back(base[at(i)] * n);
  }
  return as_own(reshape(split_shape).expand(wide).reshape(joined));
}

Tensor Tensor::repeat_interleave(std::int64_t times, std::optional<std::int64_t> axis) const {
  Scope scope;
  if (!axis) return flatten().repeat_interleave(times, 0);
  std::int64_t a = resolve_axis(*axis, ndim(), "repeat_interleave");
  Shape wide = shape(), joined = shape();
  wide.insert(wide.begin() + a + 1, Size(times));
  joined[at(a)] = joined[at(a)] * times;
  return as_own(unsqueeze(a + 1).expand(wide).reshape(joined));
}

Tensor Tensor::roll(const Ints& shifts, const Ints& axes) const {
  Scope scope;
  if (axes.empty()) {
    if (shifts.size() != 1) throw UserError("roll", "several shifts need several axes");
    return flatten().roll(shifts, 0).reshape(shape());
  }
  if (shifts.size() != axes.size())
    throw UserError("roll", fmt::format("{} shifts for {} axes", shifts.size(), axes.size()));
  Tensor out = as_own(*this);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::int64_t a = resolve_axis(axes[i], ndim(), "roll"), n = out.size(a);
    std::int64_t shift = n == 0 ? 0 : ((shifts[i] % n) + n) % n;
    if (shift != 0) out = cat({cut(out, a, n - shift, n), cut(out, a, 0, n - shift)}, a);
  }
  return out;
}

Tensor Tensor::diag() const {
  Scope scope;
  if (ndim() == 2) return as_own(diagonal());
  if (ndim() != 1)
    throw UserError("diag", fmt::format("{} has neither one nor two axes", to_string(shape())));
  return eye(size(0), std::nullopt, {.dtype = dtypes::bool_, .device = device()})
      .where(unsqueeze(0), 0)
      .cast(dtype());
}

Tensor Tensor::diagonal(std::int64_t offset, std::int64_t axis1, std::int64_t axis2) const {
  Scope scope;
  std::int64_t a = resolve_axis(axis1, ndim(), "diagonal"), b = resolve_axis(axis2, ndim(), "diagonal");
  if (a == b || ndim() < 2)
    throw UserError("diagonal", fmt::format("{} needs two different axes", to_string(shape())));
  Tensor x = movedim(a, -1).movedim(b > a ? b - 1 : b, -1);
  std::int64_t rows = x.size(-2), columns = x.size(-1), rank = ndim();
  std::int64_t from_row = std::max<std::int64_t>(-offset, 0), from_column = std::max<std::int64_t>(offset, 0);
  std::int64_t n = std::max<std::int64_t>(0, std::min(rows - from_row, columns - from_column));
  x = cut(cut(x, rank - 2, std::min(from_row, rows), std::min(from_row, rows) + n), rank - 1,
          std::min(from_column, columns), std::min(from_column, columns) + n);
  Shape out(x.shape().begin(), x.shape().end() - 2);
  out.push_back(n);
  if (n == 0) return x.reshape(out);
  // [0, j] = x[j, j]
  return make_view(x, skew(node_of(x), rank - 2, rank - 1, 1, 1, index_const(1))).reshape(out);
}

Tensor windows(const Tensor& x, std::span<const std::int64_t> kernel, std::span<const std::int64_t> stride,
               std::span<const std::int64_t> dilation) {
  Scope scope;
  const auto count = static_cast<std::int64_t>(kernel.size());
  const std::int64_t lead = x.ndim() - count;
  Shape thin = x.shape(), wide = x.shape();
  for (std::int64_t k : kernel) {
    thin.push_back(1);
    wide.push_back(k);
  }
  Tensor out = x.reshape(thin).expand(wide);
  for (std::int64_t i = 0; i < count; ++i) {
    const Size n = x.size(lead + i);
    const std::int64_t reach = dilation[at(i)] * (kernel[at(i)] - 1) + 1;
    if (n.bound_value() < reach)
      throw UserError("windows", fmt::format("a window reaching over {} elements does not fit an axis of {}",
                                             reach, n.str()))
          .help("pad the input");
    Node size = size_node((n - reach) / stride[at(i)] + 1);
    out =
        make_view(out, skew(node_of(out), lead + i, lead + count + i, stride[at(i)], dilation[at(i)], size));
  }
  return out;
}

Tensor unskewed_windows(const Tensor& windows, std::span<const std::int64_t> stride,
                        std::span<const std::int64_t> dilation) {
  const auto count = static_cast<std::int64_t>(stride.size()), lead = windows.ndim() - 2 * count;
  Tensor out = windows;
  Axes steps;
  for (std::int64_t i = 0; i < count; ++i) {
    const Size places = windows.size(lead + i);
    const std::int64_t kernel = windows.size(lead + count + i);
    Node size = size_node((places - 1) * stride[at(i)] + dilation[at(i)] * (kernel - 1) + 1);
    out = make_like(out,
                    unskew(node_of(out), lead + i, lead + count + i, stride[at(i)], dilation[at(i)], size));
    steps.push_back(lead + count + i);
  }
  Tensor sum = reduce_keep(Op::Add, out.cast(sum_accumulator(out.dtype())), steps).cast(out.dtype());
  Shape shape(sum.shape().begin(), sum.shape().begin() + lead + count);
  return sum.reshape(shape);
}

Tensor Tensor::unfold(std::int64_t axis, std::int64_t size, std::int64_t step) const {
  Scope scope;
  std::int64_t a = resolve_axis(axis, ndim(), "unfold"), one = 1;
  if (size < 0 || step <= 0)
    throw UserError("unfold", fmt::format("windows of {} elements, {} apart", size, step));
  if (size == 0) {  // one window before every step-th element, and one behind the last
    Shape none = shape();
    none[at(a)] = this->size(a).value() / step + 1;
    none.push_back(0);
    return Tensor::zeros(none, {.dtype = dtype(), .device = device()});
  }
  Tensor w = windows(movedim(a, -1), std::span(&size, 1), std::span(&step, 1), std::span(&one, 1));
  return w.movedim(-2, a);
}

namespace {

Tensor triangle(const Tensor& x, const Size& diagonal, bool upper) {
  if (x.ndim() < 2)
    throw UserError(upper ? "triu" : "tril", fmt::format("{} has fewer than two axes", to_string(x.shape())));
  Tensor row = iota_along(x.size(-2), 0, 2, dtypes::int32, x.device()).add(diagonal);
  Tensor column = iota_along(x.size(-1), 1, 2, dtypes::int32, x.device());
  Tensor keep = upper ? row <= column : row >= column;
  return keep.where(x, zero_beside(x));
}

}  // namespace

Tensor Tensor::triu(const Size& diagonal) const {
  Scope scope;
  return triangle(*this, diagonal, true);
}
Tensor Tensor::tril(const Size& diagonal) const {
  Scope scope;
  return triangle(*this, diagonal, false);
}

namespace {

// `count` elements beyond one end of an axis, by a padding mode.
Tensor border(const Tensor& x, std::int64_t axis, std::int64_t count, bool low, std::string_view mode) {
  std::int64_t n = x.size(axis);
  if (mode == "replicate") {
    Tensor edge = low ? cut(x, axis, 0, 1) : cut(x, axis, n - 1, n);
    Shape wide = x.shape();
    wide[at(axis)] = count;
    return edge.expand(wide);
  }
  std::int64_t needed = mode == "reflect" ? count + 1 : count;
  if (needed > n)
    throw UserError("pad", fmt::format("{} padding of {} needs more than the {} elements of axis {}", mode,
                                       count, n, axis));
  if (mode == "reflect")
    return (low ? cut(x, axis, 1, count + 1) : cut(x, axis, n - 1 - count, n - 1)).flip(axis);
  return low ? cut(x, axis, n - count, n) : cut(x, axis, 0, count);
}

}  // namespace

Tensor Tensor::pad(const Ints& padding, std::string_view mode, Number value) const {
  Scope scope;
  constexpr std::string_view kModes[] = {"constant", "reflect", "replicate", "circular"};
  if (std::find(std::begin(kModes), std::end(kModes), mode) == std::end(kModes))
    throw NotSupported("pad", fmt::format("mode \"{}\" is unknown", mode))
        .help("constant, reflect, replicate or circular");
  if (padding.size() % 2 != 0 || static_cast<std::int64_t>(padding.size()) > 2 * ndim())
    throw UserError("pad", fmt::format("{} numbers for {} axes; they come in pairs, last axis first",
                                       padding.size(), ndim()));
  std::vector<std::pair<Size, Size>> pairs(at(ndim()), {0, 0});
  for (std::size_t i = 0; i < padding.size() / 2; ++i)
    pairs[at(ndim()) - 1 - i] = {padding[2 * i], padding[2 * i + 1]};
  if (mode == "constant") return pad(pairs, value);
  Tensor out = *this;
  for (std::int64_t a = 0; a < ndim(); ++a) {
    std::int64_t low = pairs[at(a)].first, high = pairs[at(a)].second;
    std::int64_t begin = std::max<std::int64_t>(0, -low),
                 end = out.size(a) - std::max<std::int64_t>(0, -high);
    if (end < begin)
      throw UserError("pad", fmt::format("axis {} of {} is cut to nothing", a, to_string(out.shape())));
    const Tensor kept = cut(out, a, begin, end);
    const Tensor& source = mode == "circular" ? kept : out;  // what repeats is what is left of the axis
    std::vector<Tensor> parts;
    if (low > 0) parts.push_back(border(source, a, low, true, mode));
    parts.push_back(kept);
    if (high > 0) parts.push_back(border(source, a, high, false, mode));
    out = cat(parts, a);
  }
  return out;
}

}  // namespace lathe
