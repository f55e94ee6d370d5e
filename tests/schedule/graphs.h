// Small tensor graphs for the scheduler's tests, written with the IR's own builder.
#pragma once

#include <initializer_list>
#include <vector>

#include "ir/build.h"
#include "ir/shape.h"

namespace lathe::test {

inline std::vector<Node> sizes(std::initializer_list<std::int64_t> v) {
  std::vector<Node> out;
  for (std::int64_t s : v) out.push_back(index_const(s));
  return out;
}
inline Node view(Node x, std::initializer_list<std::int64_t> shape) { return reshape(x, sizes(shape)); }
inline Node grow(Node x, std::initializer_list<std::int64_t> shape) { return expand(x, sizes(shape)); }
inline Node swap_axes(Node x, std::initializer_list<std::int64_t> order) {
  return permute(x, std::vector<std::int64_t>(order));
}
inline Node sum(Node x, std::initializer_list<std::int64_t> axes) {
  return reduce_axes(Op::Add, x, std::vector<std::int64_t>(axes));
}
inline Node maximum(Node x, std::initializer_list<std::int64_t> axes) {
  return reduce_axes(Op::Max, x, std::vector<std::int64_t>(axes));
}
inline Node pad_by(Node x, std::initializer_list<std::int64_t> low,
                   std::initializer_list<std::int64_t> high) {
  return pad(x, sizes(low), sizes(high));
}
inline Node cut(Node x, std::initializer_list<std::int64_t> begin, std::initializer_list<std::int64_t> end) {
  return shrink(x, sizes(begin), sizes(end));
}
inline Node f32_buffer(std::int64_t size) { return new_buffer(dtypes::Float32, size, "CPU"); }
inline Node input(std::initializer_list<std::int64_t> shape) {
  std::int64_t n = 1;
  for (std::int64_t s : shape) n *= s;
  return view(f32_buffer(n), shape);
}

// (m, k) @ (k, n)
inline Node matmul(Node a, Node b, std::int64_t m, std::int64_t k, std::int64_t n) {
  Node x = grow(view(a, {m, 1, k}), {m, n, k});
  Node y = grow(view(swap_axes(b, {1, 0}), {1, n, k}), {m, n, k});
  return view(sum(x * y, {2}), {m, n});
}

// Windows of the last two axes: (b, c, h, w) -> (b, c, ky, kx, oy, ox).
inline Node windows(Node x, std::int64_t b, std::int64_t c, std::int64_t h, std::int64_t w, std::int64_t k,
                    std::int64_t stride) {
  Node g = grow(view(x, {b, c, 1, 1, h, w}), {b, c, k, k, h, w});
  std::int64_t oy = (h - k) / stride + 1, ox = (w - k) / stride + 1;
  return skew(skew(g, 4, 2, stride, 1, index_const(oy)), 5, 3, stride, 1, index_const(ox));
}

}  // namespace lathe::test
