// x[...]: basic indexing is views; tensors as indices gather, and writing through them rewrites the whole
// base.
#include <algorithm>

#include <fmt/format.h>

#include "tensor/file_store.h"
#include "tensor/gather.h"
#include "tensor/impl.h"

namespace lathe {
namespace {

struct Advanced {
  std::int64_t axis;  // of the tensor after the basic part
  Tensor index;       // integers
};

struct Parsed {
  Tensor basic;                    // the view of everything that is not a tensor
  std::vector<Advanced> advanced;  // ordered by axis
  std::optional<Tensor> mask;      // one bool tensor as the only tensor: over the axes from mask_axis on
  std::int64_t mask_axis = 0;
};

Size resolved(const Size& i, const Size& n, std::int64_t axis) {
  if (i.is_symbolic()) return i;
  if (n.is_symbolic()) return i.value() < 0 ? n + i : i;
  if (i.value() < -n.value() || i.value() >= n.value())
    throw IndexError("getitem",
                     fmt::format("index {} is out of bounds for axis {} of size {}", i.str(), axis, n.str()));
  return i.value() < 0 ? Size(i.value() + n.value()) : i;
}

// Numpy's rule for slice ends: counted from the end when negative, then clamped.
std::int64_t clamped(std::int64_t i, std::int64_t n, std::int64_t low, std::int64_t high) {
  return std::clamp(i < 0 ? i + n : i, low, high);
}

Tensor cut(const Tensor& x, std::int64_t axis, const Size& begin, const Size& end) {
  std::vector<std::pair<Size, Size>> bounds;
  for (const Size& s : x.shape()) bounds.emplace_back(0, s);
  bounds[static_cast<std::size_t>(axis)] = {begin, end};
  return x.shrink(bounds);
}

// Every step-th element: position o of the only offset of a window.
Tensor strided(const Tensor& x, std::int64_t axis, std::int64_t step) {
  if (step == 1) return x;
  std::int64_t n = x.size(axis), count = (n + step - 1) / step;
  if (count <= 1) return cut(x, axis, 0, count);
  Shape out = x.shape();
  out[static_cast<std::size_t>(axis)] = count;
  Tensor thin = x.unsqueeze(axis + 1);
  return make_view(thin, skew(node_of(thin), axis, axis + 1, step, 1, index_const(count))).reshape(out);
}

Tensor sliced(const Tensor& x, std::int64_t axis, const Slice& s) {
  if (s.step == 0) throw UserError("getitem", "a slice has step 0");
  const Size n = x.size(axis);
  bool symbolic = n.is_symbolic() || (s.start && s.start->is_symbolic()) || (s.stop && s.stop->is_symbolic());
  if (symbolic) {
    if (s.step != 1)
      throw UserError("getitem", "a slice with symbolic ends has step 1")
          .help("bind the variable, or slice in two steps");
    auto end_of = [&](const SliceEnd& e, const Size& missing) {
      if (!e) return missing;
      return !e->is_symbolic() && e->value() < 0 ? n + *e : *e;
    };
    return cut(x, axis, end_of(s.start, 0), end_of(s.stop, n));
  }
  const std::int64_t size = n.value();
  if (s.step > 0) {
    std::int64_t begin = s.start ? clamped(s.start->value(), size, 0, size) : 0;
    std::int64_t end = s.stop ? clamped(s.stop->value(), size, 0, size) : size;
    return strided(cut(x, axis, begin, std::max(begin, end)), axis, s.step);
  }
  std::int64_t first = s.start ? clamped(s.start->value(), size, -1, size - 1) : size - 1;
  std::int64_t last = s.stop ? clamped(s.stop->value(), size, -1, size - 1) : -1;  // not included
  return strided(cut(x, axis, last + 1, std::max(first, last) + 1).flip(axis), axis, -s.step);
}

std::int64_t axes_taken(const Index& i) {
  switch (i.kind()) {
    case Index::Kind::NewAxis:
    case Index::Kind::Ellipsis: return 0;
    case Index::Kind::Tensor: return i.tensor().dtype().is_bool() ? i.tensor().ndim() : 1;
    default: return 1;
  }
}

// Replaces the ellipsis (or the missing tail) by whole slices.
std::vector<Index> spelled_out(const std::vector<Index>& indices, const Tensor& x) {
  std::int64_t named = 0, dots = 0;
  for (const Index& i : indices) {
    named += axes_taken(i);
    dots += i.kind() == Index::Kind::Ellipsis;
  }
  if (dots > 1) throw IndexError("getitem", "an index can have a single ellipsis");
  if (named > x.ndim())
    throw IndexError("getitem", fmt::format("{} indices are too many for the {} axes of {}", named, x.ndim(),
                                            to_string(x.shape())));
  std::vector<Index> out;
  auto fill = [&] { out.insert(out.end(), static_cast<std::size_t>(x.ndim() - named), Index(Slice{})); };
  for (const Index& i : indices) {
    if (i.kind() == Index::Kind::Ellipsis)
      fill();
    else
      out.push_back(i);
  }
  if (dots == 0) fill();
  return out;
}

bool single_mask(const std::vector<Index>& indices) {
  int masks = 0, others = 0;
  for (const Index& i : indices)
    if (i.kind() == Index::Kind::Tensor) ++(i.tensor().dtype().is_bool() ? masks : others);
  return masks == 1 && others == 0;
}

Parsed parse(const Tensor& x, const std::vector<Index>& indices, bool keep_mask) {
  Parsed p{x, {}, {}, 0};
  std::vector<Index> all = spelled_out(indices, x);
  keep_mask = keep_mask && single_mask(all);
  std::int64_t axis = 0;
  for (const Index& i : all) {
    Tensor& t = p.basic;
    switch (i.kind()) {
      case Index::Kind::NewAxis: t = t.unsqueeze(axis++); break;
      case Index::Kind::Slice: t = sliced(t, axis++, i.slice()); break;
      case Index::Kind::Int: {
        Size at = resolved(i.position(), t.size(axis), axis);
        t = cut(t, axis, at, at + 1);
        Shape less = t.shape();
        less.erase(less.begin() + axis);
        t = t.reshape(less);
        break;
      }
      case Index::Kind::Tensor: {
        Tensor index = i.tensor();
        check_same_device("getitem", x, index);
        if (index.dtype().is_float())
          throw IndexError("getitem", fmt::format("an index of dtype {}", index.dtype().name()))
              .help("cast it to an integer dtype");
        if (!index.dtype().is_bool()) {
          p.advanced.push_back({axis++, index});
          break;
        }
        if (index.ndim() == 0) {  // chooses all or nothing, along an axis of its own
          index = index.reshape({1});
          t = t.unsqueeze(axis);
        }
        for (std::int64_t d = 0; d < index.ndim(); ++d)
          if (!(index.shape()[static_cast<std::size_t>(d)] == t.size(axis + d)))
            throw IndexError("getitem", fmt::format("a mask of shape {} does not fit axis {} of {}",
                                                    to_string(index.shape()), axis, to_string(t.shape())));
        if (keep_mask) {
          p.mask = index;
          p.mask_axis = axis;
        } else {
          Tensor where = index.nonzero();
          for (std::int64_t d = 0; d < index.ndim(); ++d)
            p.advanced.push_back({axis + d, where.getitem({Slice{}, d})});
        }
        axis += index.ndim();
        break;
      }
      case Index::Kind::Ellipsis: break;
    }
  }
  return p;
}

// All index tensors as one index into their axes joined, with the axes moved to the front.
struct Joined {
  Tensor moved;         // (joined, rest...)
  Tensor index;         // over the broadcast shape of the indices; past the end where one is out of range
  std::string_view op;  // in whose name it is still to be checked
  std::vector<std::int64_t> order;  // of the axes: indexed ones first
  bool adjacent;
};

Joined join(const Parsed& p, std::string_view op) {
  Joined j;
  const Tensor& x = p.basic;
  Nodes common;
  for (const Advanced& a : p.advanced) common = broadcast_shapes(common, node_of(a.index).shape(), "getitem");
  Shape shape = shape_of_nodes(common);
  Size joined = 1;
  for (const Advanced& a : p.advanced) joined = joined * x.size(a.axis);
  std::optional<Tensor> flat, valid;
  for (const Advanced& a : p.advanced) {
    j.order.push_back(a.axis);
    Size n = x.size(a.axis);
    Tensor i = axis_positions(a.index.expand(shape), n, op).cast(position_dtype(joined));
    flat = flat ? flat->mul(n) + i : i;
    valid = valid ? *valid & (i >= 0) : i >= 0;
  }
  const bool single = p.advanced.size() == 1;  // whoever uses the index checks it then
  j.index = single ? p.advanced[0].index : valid->where(*flat, joined);
  j.op = single ? op : kTrusted;
  j.adjacent = true;
  for (std::size_t i = 1; i < j.order.size(); ++i) j.adjacent &= j.order[i] == j.order[i - 1] + 1;
  for (std::int64_t a = 0; a < x.ndim(); ++a)
    if (std::find(j.order.begin(), j.order.end(), a) == j.order.end()) j.order.push_back(a);
  Tensor moved = x.permute(j.order);
  Shape to{joined};
  to.insert(to.end(), moved.shape().begin() + static_cast<std::ptrdiff_t>(p.advanced.size()),
            moved.shape().end());
  j.moved = moved.reshape(to);
  return j;
}

// Where numpy puts the axes of the indices: at the first of them when they are side by side, else in front.
Tensor place_index_axes(const Tensor& gathered, const Parsed& p, const Joined& j) {
  std::int64_t index_rank = j.index.ndim(), first = p.advanced[0].axis;
  if (!j.adjacent || first == 0) return gathered;
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < first; ++i) order.push_back(index_rank + i);
  for (std::int64_t i = 0; i < index_rank; ++i) order.push_back(i);
  for (std::int64_t i = index_rank + first; i < gathered.ndim(); ++i) order.push_back(i);
  return gathered.permute(order);
}

// A value for x[...] with the axes of the indices in front.
Tensor index_axes_first(const Tensor& value, const Parsed& p, const Joined& j) {
  std::int64_t index_rank = j.index.ndim(), first = p.advanced[0].axis;
  if (!j.adjacent || first == 0) return value;
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < index_rank; ++i) order.push_back(first + i);
  for (std::int64_t i = 0; i < first; ++i) order.push_back(i);
  for (std::int64_t i = first + index_rank; i < value.ndim(); ++i) order.push_back(i);
  return value.permute(order);
}

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> out(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    out[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return out;
}

// basic[..., mask, ...] = value, whose axes are those before the mask, one for the chosen elements, and those
// after it; the first of them may be missing.
void write_through(const Tensor& mask, std::int64_t mask_axis, Tensor& basic, const Tensor& value) {
  const std::int64_t after = basic.ndim() - mask_axis - mask.ndim(), before = value.ndim() - after - 1;
  Shape alone(static_cast<std::size_t>(basic.ndim()), Size(1));  // the mask beside all axes
  std::copy(mask.shape().begin(), mask.shape().end(), alone.begin() + mask_axis);
  const auto with_axes = [&](const Tensor& x, const Shape& chosen) {
    Shape shape(x.shape().begin(), x.shape().begin() + before);
    shape.insert(shape.end(), chosen.begin(), chosen.end());
    shape.insert(shape.end(), x.shape().begin() + before + 1, x.shape().end());
    return x.reshape(shape);
  };
  if (before > mask_axis)
    throw UserError("setitem", fmt::format("a value of shape {} for a part of {} axes",
                                           to_string(value.shape()), mask_axis + 1 + after));
  Tensor rows = value;
  if (before >= 0 && value.size(before) == 1) {
    rows = with_axes(value, Shape(static_cast<std::size_t>(mask.ndim()), Size(1)));
  } else if (before >= 0) {
    const Tensor places = mask.reshape({-1}).cast(dtypes::int32);
    const Size count = places.sum().item<std::int64_t>();
    if (value.size(before) != count)
      throw UserError("setitem",
                      fmt::format("the mask chooses {} places, and there are {} values of shape {}",
                                  count.str(), value.size(before).str(), to_string(value.shape())))
          .help("as many values as the mask has True, or one for all");
    if (count == 0) return;
    std::vector<Index> order(static_cast<std::size_t>(before), Index(Slice{}));
    order.emplace_back((places.cumsum(0) - 1).maximum(0));
    rows = with_axes(value.getitem(order), mask.shape());
  }
  basic.assign(mask.reshape(alone).where(rows, basic));
}

}  // namespace

Tensor Tensor::getitem(const std::vector<Index>& indices) const {
  Scope scope;
  Parsed p = parse(*this, indices, false);
  if (p.advanced.empty()) return p.basic;
  Joined j = join(p, "getitem");
  return place_index_axes(take_rows(j.moved, j.index, j.op), p, j);
}

Tensor& Tensor::setitem(const std::vector<Index>& indices, const Operand& operand) {
  Scope scope;
  Tensor value = operand_tensor(operand, *this, dtype());
  if (is_in_file(*this)) {
    const bool basic = std::none_of(indices.begin(), indices.end(),
                                    [](const Index& i) { return i.kind() == Index::Kind::Tensor; });
    if (!basic) return assign(to("CPU").clone().setitem(indices, value.to("CPU")));
    parse(*this, indices, true).basic.assign(value);
    return *this;
  }
  Parsed p = parse(*this, indices, true);
  check_same_device("setitem", *this, value);
  if (p.mask) {
    write_through(*p.mask, p.mask_axis, p.basic, value);
    return *this;
  }
  if (p.advanced.empty()) {
    p.basic.assign(value);
    return *this;
  }
  Joined j = join(p, "setitem");
  Shape target = j.index.shape();
  target.insert(target.end(), j.moved.shape().begin() + 1, j.moved.shape().end());
  Tensor outer = place_index_axes(Tensor::empty(target, {.dtype = dtype(), .device = device()}), p, j);
  Tensor rows = index_axes_first(value.expand(outer.shape()), p, j);
  Tensor updated = put_rows(j.moved, j.index, rows, j.op);
  Tensor moved = p.basic.permute(j.order);
  p.basic.assign(updated.reshape(moved.shape()).permute(inverse(j.order)));
  return *this;
}

}  // namespace lathe
