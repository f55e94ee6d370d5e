// Small tensor graphs and ways to fill and read buffers, for tests of the engine.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "ir/build.h"
#include "ir/shape.h"
#include "ir/walk.h"

namespace lathe::test {

inline NodeRef floats(const std::vector<float>& values, std::string_view device = "CPU") {
  return engine::buffer_from_host(dtypes::Float32, static_cast<std::int64_t>(values.size()), device,
                                  values.data());
}

// Quarters between -2.25 and 2.25, others for each seed.
inline std::vector<float> numbers(std::size_t n, int seed) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<float>((static_cast<int>(i) * 37 + seed * 11) % 19 - 9) / 4;
  return out;
}

// The values of a realised node that is a buffer, or a reshape of one.
inline std::vector<float> read(Node node) {
  while (node.is(Op::Reshape)) node = node.arg(0);
  EXPECT_TRUE(node.is(Op::Buffer));
  std::vector<float> values(static_cast<std::size_t>(buffer_size(node)));
  engine::buffer_to_host(node, values.data(), values.size() * 4);
  return values;
}

inline NodeRef realize(Node node) { return engine::realize(std::span<const Node>(&node, 1))[0]; }

inline Node shaped(Node x, std::vector<std::int64_t> sizes) {
  std::vector<Node> nodes;
  for (const std::int64_t size : sizes) nodes.push_back(index_const(size));
  return reshape(x, nodes);
}
inline Node grown(Node x, std::vector<std::int64_t> sizes) {
  std::vector<Node> nodes;
  for (const std::int64_t size : sizes) nodes.push_back(index_const(size));
  return expand(x, nodes);
}

inline Node sum(Node x, std::vector<std::int64_t> axes) { return reduce_axes(Op::Add, x, axes); }

// (m, k) by (k, n).
inline Node matmul(Node a, Node b, std::int64_t m, std::int64_t k, std::int64_t n) {
  const Node left = grown(shaped(a, {m, 1, k}), {m, n, k});
  const std::int64_t order[] = {1, 0};
  const Node right = grown(shaped(permute(b, order), {1, n, k}), {m, n, k});
  return shaped(sum(left * right, {2}), {m, n});
}

// The next version of a buffer, once `value` is stored into all of it.
inline Node assign(Node memory, Node value) {
  const Node store = intern(Op::Store, dtypes::Void, {memory, value});
  return after(memory, std::span(&store, 1));
}

}  // namespace lathe::test
