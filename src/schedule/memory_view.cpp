#include "schedule/memory_view.h"

#include <algorithm>

#include "base/error.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/shape.h"
#include "ir/walk.h"

namespace lathe {

Node unbound(Node size) {
  if (size.is_const()) return size;
  NodeMap<Node> map;
  for (const Node& node : toposort(size))
    if (node.is(Op::Bind)) map[node] = node.arg(0);
  return map.empty() ? size : substitute(size, map);
}

Node view_of(Node buffer, std::span<const Node> shape) {
  SmallVector<Node, 8> whole, zeros;
  bool symbolic = false;
  for (const Node& size : shape) {
    symbolic |= !size.is_const();
    whole.push_back(index_const(unbound(size).hi()));
    zeros.push_back(index_const(0));
  }
  const bool flat = whole.size() == 1 && whole[0] == buffer.shape()[0];
  const Node view = flat ? buffer : reshape(buffer, whole);
  return symbolic ? shrink(view, zeros, shape) : view;
}

std::int64_t stored_size(std::span<const Node> shape) {
  std::int64_t count = 1;
  for (const Node& size : shape)
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(unbound(size).hi(), 0), &count))
      throw UserError("shape", "the number of elements of " + shape_text(shape) + " does not fit 64 bits");
  return count;
}

}  // namespace lathe
