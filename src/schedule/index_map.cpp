#include "schedule/index_map.h"

#include <algorithm>

#include "base/error.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/shape.h"

namespace lathe {
namespace {

using Indices = SmallVector<Node, 8>;

bool is_one(Node size) { return size.is_const_int(1); }

// 0 <= i < size, without the conditions that the bounds already imply.
Node inside(Node i, Node size, Rewriter& rewriter) {
  Node low = i.lo() >= 0 ? Node() : logical_not(less(i, index_const(0)));
  Node high = size.is_const() && i.hi() < size.int_attr() ? Node() : less(i, size);
  if (!low && !high) return Node();
  Node both = !low ? high : !high ? low : logical_and(low, high);
  return rewriter.rewrite(both);
}

// Row-major number of a position within one group of axes.
Node flatten(std::span<const Node> sizes, std::span<const Node> index) {
  Node flat = index_const(0), stride = index_const(1);
  for (std::size_t i = sizes.size(); i-- > 0;) {
    flat = flat + index[i] * stride;
    stride = stride * sizes[i];
  }
  return flat;
}

void unflatten(Node flat, std::span<const Node> sizes, Indices& out, Rewriter& rewriter) {
  Indices reversed;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    Node rest = i == 0 ? index_const(0) : floor_div(flat, sizes[i]);
    reversed.push_back(rewriter.rewrite(i == 0 ? flat : floor_mod(flat, sizes[i])));
    flat = rest;
  }
  out.append(reversed.rbegin(), reversed.rend());
}

}  // namespace

Node both(Node a, Node b, Rewriter& rewriter) {
  if (!a || a.is_const_int(1)) return b && b.is_const_int(1) ? Node() : b;
  if (!b || b.is_const_int(1)) return a;
  return rewriter.rewrite(logical_and(a, b));
}

Node flat_index(std::span<const Node> shape, std::span<const Node> index, Rewriter& rewriter) {
  Node flat = index_const(0);
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    flat = flat + index[i] * index_const(stride);
    stride *= std::max<std::int64_t>(shape[i].hi(), 0);
  }
  return rewriter.rewrite(flat);
}

Node reshape_index(std::span<const Node> from, std::span<const Node> to, std::span<const Node> index,
                   Rewriter& rewriter) {
  // Axes are matched in groups of equal product, so that only axes that really merge or split meet in one
  // expression.
  Indices from_sizes, from_index, to_sizes;
  for (Node d : to)
    if (d.is_const_int(0))
      return dims(Indices(to.size(), index_const(0)));  // nothing there: any position will do
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!is_one(from[i])) {
      from_sizes.push_back(from[i]);
      from_index.push_back(index[i]);
    }
  for (Node d : to)
    if (!is_one(d)) to_sizes.push_back(d);
  Indices out;
  std::size_t i = 0, j = 0;
  while (j < to_sizes.size()) {
    std::size_t i0 = i, j0 = j;
    if (i == from_sizes.size()) throw InternalError("reshape", "sizes do not match");
    Node a = from_sizes[i++], b = to_sizes[j++];
    while (a != b && (i < from_sizes.size() || j < to_sizes.size())) {
      bool take_from = j == to_sizes.size() ||
                       (i < from_sizes.size() &&
                        (a.is_const() && b.is_const() ? a.int_attr() < b.int_attr() : i - i0 <= j - j0));
      if (take_from)
        a = rewriter.rewrite(a * from_sizes[i++]);
      else
        b = rewriter.rewrite(b * to_sizes[j++]);
    }
    auto group = [](const Indices& v, std::size_t first, std::size_t last) {
      return std::span<const Node>(v.data() + first, last - first);
    };
    Node flat = rewriter.rewrite(flatten(group(from_sizes, i0, i), group(from_index, i0, i)));
    unflatten(flat, group(to_sizes, j0, j), out, rewriter);
  }
  Indices full;
  std::size_t k = 0;
  for (Node d : to) full.push_back(is_one(d) ? index_const(0) : out[k++]);
  return dims(full);
}

Position map_position(Node movement, const Position& out, Rewriter& rewriter) {
  Node x = movement.arg(0);
  std::span<const Node> in_shape = x.shape(), at = out.index ? out.index.args() : std::span<const Node>();
  Indices in(at.begin(), at.end());
  Node valid = out.valid;
  switch (movement.op()) {
    case Op::Reshape: return {reshape_index(movement.shape(), in_shape, at, rewriter), valid};
    case Op::Expand:
      in.clear();
      for (std::size_t i = 0; i < in_shape.size(); ++i)
        in.push_back(is_one(in_shape[i]) ? index_const(0) : at[i]);
      break;
    case Op::Permute:
      for (std::size_t i = 0; i < in.size(); ++i) in[static_cast<std::size_t>(movement.ints()[i])] = at[i];
      break;
    case Op::Pad:
      for (std::size_t i = 0; i < in.size(); ++i) {
        Node low = movement.arg(1 + i), high = movement.arg(1 + in_shape.size() + i);
        if (low.is_const_int(0) && high.is_const_int(0)) continue;
        in[i] = rewriter.rewrite(at[i] - low);
        valid = both(valid, inside(in[i], in_shape[i], rewriter), rewriter);
      }
      break;
    case Op::Shrink:
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = rewriter.rewrite(at[i] + movement.arg(1 + i));
      break;
    case Op::Flip:
      for (std::int64_t axis : movement.ints()) {
        auto a = static_cast<std::size_t>(axis);
        in[a] = rewriter.rewrite(in_shape[a] - index_const(1) - at[a]);
      }
      break;
    case Op::Skew: {
      auto n = static_cast<std::size_t>(movement.ints()[0]), k = static_cast<std::size_t>(movement.ints()[1]);
      in[n] =
          rewriter.rewrite(at[n] * index_const(movement.ints()[2]) + at[k] * index_const(movement.ints()[3]));
      break;
    }
    case Op::Unskew: {
      auto n = static_cast<std::size_t>(movement.ints()[0]), k = static_cast<std::size_t>(movement.ints()[1]);
      Node stride = index_const(movement.ints()[2]);
      Node offset = rewriter.rewrite(at[n] - at[k] * index_const(movement.ints()[3]));
      in[n] = rewriter.rewrite(floor_div(offset, stride));
      valid = both(valid, inside(in[n], in_shape[n], rewriter), rewriter);
      Node whole = rewriter.rewrite(equal(floor_mod(offset, stride), index_const(0)));
      if (!whole.is_const_int(1)) valid = both(valid, whole, rewriter);
      break;
    }
    default: throw InternalError("schedule", std::string(info(movement.op()).name) + " is not a movement op");
  }
  return {dims(in), valid};
}

}  // namespace lathe
