// Movement ops: views, and the few that are not (pad).
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "tensor/impl.h"

namespace lathe {

bool is_one(Node size) { return size.is_const_int(1); }

std::int64_t resolve_axis(std::int64_t axis, std::int64_t rank, std::string_view op) {
  std::int64_t limit = std::max<std::int64_t>(rank, 1);
  if (axis < -limit || axis >= limit)
    throw IndexError(op, fmt::format("axis {} is outside a tensor of {} axes", axis, rank))
        .help(fmt::format("axes go from {} to {}", -limit, limit - 1));
  return axis < 0 ? axis + limit : axis;
}

Axes resolve_axes(const Ints& axes, std::int64_t rank, std::string_view op) {
  Axes out;
  if (axes.empty()) {
    for (std::int64_t i = 0; i < rank; ++i) out.push_back(i);
    return out;
  }
  for (std::int64_t a : axes) {
    std::int64_t axis = resolve_axis(a, rank, op);
    if (rank > 0) out.push_back(axis);
  }
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) throw UserError(op, "an axis is named twice");
  return out;
}

namespace {

bool same_sizes(std::span<const Node> a, std::span<const Node> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

Node splat_of(Node x) {
  if (x.is(Op::Expand) && x.arg(0).is_const()) return x.arg(0);
  return x.is_const() ? x : Node();
}

Node splat_to(Node constant, std::span<const Node> sizes) {
  return sizes.empty() ? constant : expand(constant, sizes);
}

}  // namespace

Node reshape_to(Node x, std::span<const Node> sizes) {
  if (same_sizes(x.shape(), sizes)) return x;
  if (Node c = splat_of(x)) return splat_to(c, sizes);
  return reshape(x, sizes);  // over a reshape too: that one may be the node a parameter is known by
}

Node expand_to(Node x, std::span<const Node> sizes) {
  if (same_sizes(x.shape(), sizes)) return x;
  if (Node c = splat_of(x)) return splat_to(c, sizes);
  return expand(x, sizes);
}

Node permute_to(Node x, std::span<const std::int64_t> order) {
  bool identity = true;
  for (std::size_t i = 0; i < order.size(); ++i) identity &= order[i] == static_cast<std::int64_t>(i);
  if (identity) return x;
  Node moved = permute(x, order);
  if (Node c = splat_of(x)) return splat_to(c, moved.shape());
  return moved;
}

Node shrink_to_bounds(Node x, std::span<const Node> begin, std::span<const Node> end) {
  bool whole = true;
  for (std::size_t i = 0; i < begin.size(); ++i) whole &= begin[i].is_const_int(0) && end[i] == x.shape()[i];
  if (whole) return x;
  Node moved = shrink(x, begin, end);
  if (Node c = splat_of(x)) return splat_to(c, moved.shape());
  return moved;
}

Node broadcast_to(Node x, std::span<const Node> sizes, std::string_view op) {
  std::span<const Node> from = x.shape();
  if (same_sizes(from, sizes)) return x;
  bool fits = from.size() <= sizes.size();
  std::size_t lead = fits ? sizes.size() - from.size() : 0;
  for (std::size_t i = 0; fits && i < from.size(); ++i) fits = is_one(from[i]) || from[i] == sizes[lead + i];
  if (!fits)
    throw UserError(op, fmt::format("shape {} does not broadcast to {}", shape_text(from), shape_text(sizes)))
        .help("axes are matched from the last one; each must be equal or 1");
  Nodes padded(lead, index_const(1));
  padded.append(from.begin(), from.end());
  return expand_to(reshape_to(x, padded), sizes);
}

Nodes broadcast_shapes(std::span<const Node> a, std::span<const Node> b, std::string_view op) {
  std::size_t rank = std::max(a.size(), b.size());
  Nodes out(rank, index_const(1));
  for (std::size_t i = 0; i < rank; ++i) {  // from the last axis
    Node x = i < a.size() ? a[a.size() - 1 - i] : index_const(1);
    Node y = i < b.size() ? b[b.size() - 1 - i] : index_const(1);
    if (x != y && !is_one(x) && !is_one(y))
      throw UserError(op, fmt::format("shapes {} and {} do not broadcast: {} against {}", shape_text(a),
                                      shape_text(b), index_text(x), index_text(y)))
          .help("axes are matched from the last one; each pair must be equal or one of them 1");
    out[rank - 1 - i] = is_one(x) ? y : x;
  }
  return out;
}

Tensor Tensor::reshape(const Shape& shape) const {
  Scope scope;
  Node x = node_of(*this);
  Nodes sizes, known;
  std::size_t hole = shape.size();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    sizes.push_back(size_node(shape[i]));
    if (!sizes[i].is_const_int(-1)) {
      if (sizes[i].hi() < 0) throw UserError("reshape", fmt::format("size {} is negative", shape[i].str()));
      known.push_back(sizes[i]);
      continue;
    }
    if (hole != shape.size()) throw UserError("reshape", "more than one size is -1");
    hole = i;
  }
  auto refuse = [&] {
    return UserError("reshape",
                     fmt::format("{} has {} elements, which do not fill {}", to_string(this->shape()),
                                 index_text(size_product(x.shape())), to_string(shape)));
  };
  if (hole != shape.size()) {
    std::optional<Node> rest = exact_quotient(x.shape(), known);
    if (!rest) throw refuse();
    sizes[hole] = *rest;
  } else if (size_product(x.shape()) != size_product(sizes)) {
    throw refuse();
  }
  if (same_sizes(x.shape(), sizes)) return make_view(*this, x);
  return make_view(*this, lathe::reshape(x, sizes));
}

Tensor Tensor::expand(const Shape& shape) const {
  Scope scope;
  Node x = node_of(*this);
  Nodes sizes = size_nodes(shape);
  if (sizes.size() < x.rank())
    throw UserError("expand",
                    fmt::format("shape {} has more axes than {}", shape_text(x.shape()), to_string(shape)));
  std::size_t lead = sizes.size() - x.rank();
  for (std::size_t i = lead; i < sizes.size(); ++i)
    if (sizes[i].is_const_int(-1)) sizes[i] = x.shape()[i - lead];
  Nodes padded(lead, index_const(1));
  padded.append(x.shape().begin(), x.shape().end());
  broadcast_to(x, sizes, "expand");
  Tensor t = same_sizes(padded, x.shape()) ? *this : make_view(*this, lathe::reshape(x, padded));
  Node y = node_of(t);
  return same_sizes(y.shape(), sizes) ? t : make_view(t, lathe::expand(y, sizes));
}

Tensor Tensor::permute(const Ints& order) const {
  Scope scope;
  Node x = node_of(*this);
  const auto rank = static_cast<std::int64_t>(x.rank());
  Axes axes;
  for (std::int64_t a : order) axes.push_back(resolve_axis(a, rank, "permute"));
  Axes sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  bool complete = static_cast<std::int64_t>(axes.size()) == rank;
  for (std::int64_t i = 0; complete && i < rank; ++i) complete = sorted[static_cast<std::size_t>(i)] == i;
  if (!complete)
    throw UserError("permute", fmt::format("({}) is not a permutation of the {} axes of {}",
                                           fmt::join(order.values(), ", "), rank, shape_text(x.shape())));
  if (axes == sorted) return make_view(*this, x);
  return make_view(*this, lathe::permute(x, axes));
}

Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(ndim()));
  std::iota(order.begin(), order.end(), 0);
  if (order.empty()) return *this;
  std::swap(order[static_cast<std::size_t>(resolve_axis(a, ndim(), "transpose"))],
            order[static_cast<std::size_t>(resolve_axis(b, ndim(), "transpose"))]);
  return permute(order);
}

Tensor Tensor::T() const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(ndim()));
  std::iota(order.rbegin(), order.rend(), 0);
  return permute(order);
}

Tensor Tensor::movedim(std::int64_t from, std::int64_t to) const {
  from = resolve_axis(from, ndim(), "movedim");
  to = resolve_axis(to, ndim(), "movedim");
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < ndim(); ++i)
    if (i != from) order.push_back(i);
  order.insert(order.begin() + to, from);
  return permute(order);
}

Tensor Tensor::flip(const Ints& axes) const {
  Scope scope;
  Node x = node_of(*this);
  Axes sorted = resolve_axes(axes, ndim(), "flip");
  if (x.rank() == 0 || axes.empty()) return make_view(*this, x);
  return make_view(*this, lathe::flip(x, sorted));
}

Tensor Tensor::shrink(const std::vector<std::pair<Size, Size>>& bounds) const {
  Scope scope;
  Node x = node_of(*this);
  if (bounds.size() != x.rank())
    throw UserError("shrink", fmt::format("{} bounds for the {} axes of {}", bounds.size(), x.rank(),
                                          shape_text(x.shape())));
  Nodes begin, end;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    begin.push_back(size_node(bounds[i].first));
    end.push_back(size_node(bounds[i].second));
    Node b = begin[i], e = end[i], n = x.shape()[i];
    bool plain = b.is_const() && e.is_const();
    if (b.lo() < 0 || (plain && e.const_int() < b.const_int()) || (e != n && e.lo() > n.hi()))
      throw UserError("shrink", fmt::format("[{}, {}) is not within axis {} of {}", index_text(b),
                                            index_text(e), i, shape_text(x.shape())));
  }
  Node moved = shrink_to_bounds(x, begin, end);
  if (moved == x) return make_view(*this, x);
  return make_view(*this, lathe::shrink(x, begin, end));
}

namespace {

// Low and high padding of every axis; negative amounts cut.
Tensor pad_zero(const Tensor& t, const std::vector<std::pair<Size, Size>>& padding) {
  Node x = node_of(t);
  if (padding.size() != x.rank())
    throw UserError("pad", fmt::format("{} paddings for the {} axes of {}", padding.size(), x.rank(),
                                       shape_text(x.shape())));
  Nodes low, high, begin, end;
  bool cuts = false, grows = false;
  for (std::size_t i = 0; i < padding.size(); ++i) {
    Node l = size_node(padding[i].first), h = size_node(padding[i].second), n = x.shape()[i],
         zero = index_const(0);
    bool cut_low = l.hi() < 0, cut_high = h.hi() < 0;
    begin.push_back(cut_low ? neg(l) : zero);
    end.push_back(cut_high ? n + h : n);
    if (begin[i].is_const() && end[i].is_const() && end[i].const_int() < begin[i].const_int())
      throw UserError("pad", fmt::format("axis {} of {} is cut to nothing", i, shape_text(x.shape())));
    low.push_back(cut_low ? zero : l);
    high.push_back(cut_high ? zero : h);
    cuts |= cut_low || cut_high;
    grows |= !low[i].is_const_int(0) || !high[i].is_const_int(0);
  }
  Tensor out = t;
  if (cuts) {
    std::vector<std::pair<Size, Size>> bounds;
    for (std::size_t i = 0; i < begin.size(); ++i) bounds.emplace_back(size_of(begin[i]), size_of(end[i]));
    out = t.shrink(bounds);
  }
  return grows ? make_like(out, pad(node_of(out), low, high)) : as_own(out);
}

}  // namespace

Tensor Tensor::pad(const std::vector<std::pair<Size, Size>>& padding, Number value) const {
  Scope scope;
  if (value.to_double() == 0) return pad_zero(*this, padding);
  // Integers stay integers beside an integer; beside another they become floats, as in where().
  const double number = value.to_double();
  const bool whole = number == std::floor(number) && std::isfinite(number);
  if (!dtype().is_float() && whole && value.kind() == Number::Kind::Float) {
    if (std::fabs(number) >= 0x1p63)
      throw UserError("pad", fmt::format("{} does not fit {}", number, dtype().name()))
          .help("cast the tensor to a float dtype first");
    value = Number(static_cast<std::int64_t>(number));
  }
  Tensor inside = Tensor::full(shape(), true, {.dtype = dtypes::bool_, .device = device()});
  Tensor here = pad_zero(inside, padding);
  const Tensor out = here.where(pad_zero(*this, padding), value);
  return dtype().is_float() || whole ? out.cast(dtype()) : out;
}

Tensor Tensor::pad_to(const Shape& shape) const {
  Scope scope;
  if (shape.size() != static_cast<std::size_t>(ndim()))
    throw UserError("pad_to", fmt::format("{} has a different number of axes than {}", to_string(shape),
                                          to_string(this->shape())));
  std::vector<std::pair<Size, Size>> padding;
  for (std::size_t i = 0; i < shape.size(); ++i)
    padding.emplace_back(0, shape[i] == Size(-1) ? Size(0) : shape[i] - this->shape()[i]);
  return pad(padding);
}

Tensor Tensor::shrink_to(const Shape& shape) const {
  Scope scope;
  if (shape.size() != static_cast<std::size_t>(ndim()))
    throw UserError("shrink_to", fmt::format("{} has a different number of axes than {}", to_string(shape),
                                             to_string(this->shape())));
  std::vector<std::pair<Size, Size>> bounds;
  for (std::size_t i = 0; i < shape.size(); ++i)
    bounds.emplace_back(0, shape[i] == Size(-1) ? this->shape()[i] : shape[i]);
  return shrink(bounds);
}

Tensor Tensor::squeeze(std::optional<std::int64_t> axis) const {
  Scope scope;
  const Shape& from = shape();
  Shape to;
  std::size_t only = axis ? static_cast<std::size_t>(resolve_axis(*axis, ndim(), "squeeze")) : from.size();
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!(from[i] == 1) || (axis && i != only)) to.push_back(from[i]);
  return reshape(to);
}

Tensor Tensor::unsqueeze(std::int64_t axis) const {
  Shape to = shape();
  to.insert(to.begin() + resolve_axis(axis, ndim() + 1, "unsqueeze"), Size(1));
  return reshape(to);
}

Tensor Tensor::flatten(std::int64_t start, std::int64_t end) const {
  Scope scope;
  if (ndim() == 0) return reshape({1});
  auto first = static_cast<std::size_t>(resolve_axis(start, ndim(), "flatten"));
  auto last = static_cast<std::size_t>(resolve_axis(end, ndim(), "flatten"));
  if (last < first)
    throw UserError("flatten", fmt::format("the last axis {} is before the first {}", end, start));
  const Shape& from = shape();
  Nodes joined;
  for (std::size_t i = first; i <= last; ++i) joined.push_back(size_node(from[i]));
  Shape to(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(first));
  to.push_back(size_of(size_product(joined)));
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(last) + 1, from.end());
  return reshape(to);
}

Tensor Tensor::unflatten(std::int64_t axis, const Shape& sizes) const {
  Scope scope;
  const auto at = resolve_axis(axis, ndim(), "unflatten");
  Tensor whole = *this;
  Shape to = shape(), parts = sizes;
  for (Size& s : parts)
    if (s == -1) {
      Nodes known;
      for (const Size& o : sizes)
        if (!(o == -1)) known.push_back(size_node(o));
      Node n = size_node(shape()[static_cast<std::size_t>(at)]);
      auto rest = exact_quotient(std::span(&n, 1), known);
      if (!rest)
        throw UserError("unflatten",
                        fmt::format("{} does not divide into {}", index_text(n), to_string(sizes)));
      s = size_of(*rest);
    }
  to.erase(to.begin() + at);
  to.insert(to.begin() + at, parts.begin(), parts.end());
  return reshape(to);
}

}  // namespace lathe
