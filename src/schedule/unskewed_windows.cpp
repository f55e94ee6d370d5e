#include "schedule/unskewed_windows.h"

#include <algorithm>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/shape.h"

namespace lathe {
namespace {

using Sizes = SmallVector<Node, 8>;
using Axes = SmallVector<std::int64_t, 8>;

// One axis of windows.
struct Window {
  std::size_t n, k;               // its axes in x
  std::int64_t stride, dilation;  // of the Unskew
  std::int64_t size;              // of the axis that the windows cover
  std::int64_t steps = 1;         // windows over one position, with one residue
  std::int64_t blocks = 1;        // positions with one residue

  bool split() const { return stride > 1; }
};

bool contains(std::span<const std::int64_t> axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

// The windows of a chain of Unskews, and x below them; none if the rule does not apply.
SmallVector<Window, 4> windows_of(Node reduce, Node& x) {
  SmallVector<Window, 4> windows;
  std::span<const std::int64_t> summed = reduce.ints().subspan(1);
  Axes used;
  bool any = false;
  for (x = reduce.arg(0); x.is(Op::Unskew); x = x.arg(0)) {
    auto n = static_cast<std::size_t>(x.ints()[0]), k = static_cast<std::size_t>(x.ints()[1]);
    Node from = x.arg(0).shape()[n], steps = x.shape()[k], size = x.shape()[n];
    if (!from.is_const() || !steps.is_const() || !size.is_const()) return {};
    Window w{n, k, x.ints()[2], x.ints()[3], size.int_attr()};
    if (contains(used, n) || contains(used, k) || contains(summed, n) || !contains(summed, k)) return {};
    if (w.split()) {
      if (w.dilation != 1 || w.size == 0 || steps.int_attr() == 0) return {};
      w.steps = (steps.int_attr() + w.stride - 1) / w.stride;
      w.blocks = (w.size + w.stride - 1) / w.stride;
      if (from.int_attr() > w.blocks) return {};  // some have no position
    }
    used.push_back(static_cast<std::int64_t>(n));
    used.push_back(static_cast<std::int64_t>(k));
    any |= w.split();
    windows.push_back(w);
  }
  if (!any) windows.clear();
  return windows;
}

Node padded(Node x, std::span<const Window> windows) {
  Sizes low(x.rank(), index_const(0)), high = low;
  bool any = false;
  auto pad_to = [&](std::size_t axis, std::int64_t size) {
    const std::int64_t more = size - x.shape()[axis].int_attr();
    high[axis] = index_const(more);
    any |= more > 0;
  };
  for (const Window& w : windows) {
    if (!w.split()) continue;
    pad_to(w.k, w.steps * w.stride);
    if (w.steps == 1) pad_to(w.n, w.blocks);
  }
  return any ? pad(x, low, high) : x;
}

}  // namespace

Node unskew_by_residue(Node reduce) {
  if (reduce_op(reduce) != Op::Add || !reduce.arg(0).is(Op::Unskew)) return reduce;
  Node x;
  const SmallVector<Window, 4> windows = windows_of(reduce, x);
  if (windows.empty()) return reduce;
  const std::size_t rank = x.rank();
  auto window_of = [&](std::size_t axis, bool by_k) -> const Window* {
    for (const Window& w : windows)
      if (w.split() && (by_k ? w.k : w.n) == axis) return &w;
    return nullptr;
  };

  // (.., k, ..) -> (.., q, m, ..)
  x = padded(x, windows);
  Sizes sizes;
  Axes now(rank, 0);  // where each axis of x is; of k, where q is
  for (std::size_t a = 0; a < rank; ++a) {
    now[a] = static_cast<std::int64_t>(sizes.size());
    const Window* w = window_of(a, true);
    sizes.push_back(w != nullptr ? index_const(w->steps) : x.shape()[a]);
    if (w != nullptr) sizes.push_back(index_const(w->stride));
  }
  Node value = reshape(x, sizes);
  for (std::size_t i = windows.size(); i-- > 0;) {
    const Window& w = windows[i];
    if (!w.split())
      value = unskew(value, now[w.n], now[w.k], w.stride, w.dilation, index_const(w.size));
    else if (w.steps > 1)
      value = unskew(value, now[w.n], now[w.k], 1, 1, index_const(w.blocks));
  }

  // m right behind its n; then the sum over what is left of it.
  Axes order, summed;
  for (std::size_t a = 0; a < rank; ++a) {
    if (contains(reduce.ints().subspan(1), a) &&
        !value.shape()[static_cast<std::size_t>(now[a])].is_const_int(1))
      summed.push_back(static_cast<std::int64_t>(order.size()));
    order.push_back(now[a]);
    if (const Window* w = window_of(a, false)) order.push_back(now[w->k] + 1);
  }
  value = permute(value, order);
  if (!summed.empty()) value = reduce_axes(Op::Add, value, summed);

  // (.., o, m, ..) -> (.., i, ..), without what is past the end.
  Sizes whole, zeros(rank, index_const(0));
  for (std::size_t a = 0; a < rank; ++a) {
    const Window* w = window_of(a, false);
    whole.push_back(w != nullptr ? index_const(w->blocks * w->stride) : reduce.shape()[a]);
  }
  value = reshape(value, whole);
  return value.shape_node() == reduce.shape_node() ? value : shrink(value, zeros, reduce.shape());
}

}  // namespace lathe
