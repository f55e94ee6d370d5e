// Attention over numbers of 16 bits, with its gradients as the gradient rule of the tensor graph has them
// (tensor/softmax_gradient.h), for tests of matrix units.
#pragma once

#include <limits>
#include <random>
#include <vector>

#include "graphs.h"
#include "ir/build.h"
#include "reference/reference.h"
#include "reference/tensor_eval.h"

namespace lathe::test {

struct AttentionSizes {
  std::int64_t heads, rows, keys, width, out;
  std::int64_t shared = 1;  // query heads that have the same keys and values
};

enum class AttentionMask { None, Causal, Given, Window };

struct SmallAttention {
  Node q, k, v, mask, change;
  std::vector<Node> all;  // the output and the gradients of q, k and v
};

inline Node input_of(DType dtype, std::initializer_list<std::int64_t> shape) {
  std::int64_t n = 1;
  for (std::int64_t s : shape) n *= s;
  return view(new_buffer(dtype, n, "CPU"), shape);
}

inline Node rounded(Node x, DType to) { return cast(cast(x, to), x.dtype()); }

// As the gradient rule of the tensor graph has it (tensor/softmax_gradient.h).
inline SmallAttention small_attention(const AttentionSizes& s, AttentionMask mask,
                                      DType dtype = dtypes::BFloat16) {
  const DType f = dtypes::Float32;
  const std::int64_t kept = s.heads / s.shared;
  SmallAttention a;
  a.q = input_of(dtype, {s.heads, s.rows, s.width});
  a.k = input_of(dtype, {kept, s.keys, s.width});
  a.v = input_of(dtype, {kept, s.keys, s.out});
  a.change = input_of(dtype, {s.heads, s.rows, s.out});
  auto repeated = [&](Node x, std::int64_t width) {
    return view(grow(view(x, {kept, 1, s.keys, width}), {kept, s.shared, s.keys, width}),
                {s.heads, s.keys, width});
  };
  auto rows = [&](Node x, std::int64_t n) {
    return grow(view(cast(x, f), {s.heads, s.rows, 1, n}), {s.heads, s.rows, s.keys, n});
  };
  auto keys = [&](Node x, std::int64_t n) {
    return grow(view(cast(x, f), {s.heads, 1, s.keys, n}), {s.heads, s.rows, s.keys, n});
  };
  auto whole = [&](Node n) { return grow(n, {s.heads, s.rows, s.keys}); };
  Node key = repeated(a.k, s.width), value = repeated(a.v, s.out);
  const Node scale = float_const(f, 0.3), low = float_const(f, -std::numeric_limits<double>::infinity());
  Node x = view(sum(rows(a.q, s.width) * keys(key, s.width), {3}), {s.heads, s.rows, s.keys}) * scale;
  Node row = whole(view(arange(dtypes::Int32, index_const(s.rows)), {1, s.rows, 1}));
  Node column = whole(view(arange(dtypes::Int32, index_const(s.keys)), {1, 1, s.keys}));
  Node early = less(row, column), late = less(column + int_const(dtypes::Int32, 50), row);
  if (mask == AttentionMask::Causal || mask == AttentionMask::Window) x = where(early, low, x);
  if (mask == AttentionMask::Window) x = where(late, low, x);
  if (mask == AttentionMask::Given) {
    a.mask = input_of(f, {s.rows, s.keys});
    x = x + whole(view(a.mask, {1, s.rows, s.keys}));
  }
  Node e = apply(Op::Exp2, (x - whole(maximum(x, {2}))) * float_const(f, 1.4426950408889634));
  Node weights = e * whole(apply(Op::Recip, sum(e, {2})));
  Node p =
      grow(view(rounded(weights, dtype), {s.heads, s.rows, 1, s.keys}), {s.heads, s.rows, s.out, s.keys});
  Node v = grow(view(swap_axes(cast(value, f), {0, 2, 1}), {s.heads, 1, s.out, s.keys}),
                {s.heads, s.rows, s.out, s.keys});
  Node out = view(sum(p * v, {3}), {s.heads, s.rows, s.out});
  Node d = sum(cast(a.change, f) * out, {2});
  Node dp = view(sum(rows(a.change, s.out) * keys(value, s.out), {3}), {s.heads, s.rows, s.keys});
  Node ds = weights * (dp - whole(d));
  if (mask == AttentionMask::Window) ds = where(late, zero_of(f), ds);
  if (mask == AttentionMask::Causal || mask == AttentionMask::Window) ds = where(early, zero_of(f), ds);
  ds = rounded(ds * scale, dtype);
  auto weigh = [&](Node n, std::int64_t width) {
    return grow(view(n, {s.heads, s.rows, s.keys, 1}), {s.heads, s.rows, s.keys, width});
  };
  auto of_shared = [&](Node x, std::int64_t width) {  // of all query heads
    x = cast(view(x, {s.heads, s.keys, width}), dtype);
    if (s.shared == 1) return x;
    return cast(sum(cast(view(x, {kept, s.shared, s.keys, width}), f), {1}), dtype);
  };
  Node dq = view(sum(weigh(ds, s.width) * keys(key, s.width), {2}), {s.heads, s.rows, s.width});
  Node dk = sum(weigh(ds, s.width) * rows(a.q, s.width), {1});
  Node dv = sum(weigh(rounded(weights, dtype), s.out) * rows(a.change, s.out), {1});
  a.all = {cast(out, dtype), cast(dq, dtype), of_shared(dk, s.width), of_shared(dv, s.out)};
  return a;
}

inline reference::BufferContents numbers_of(const SmallAttention& a) {
  reference::BufferContents out;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (Node n : {a.q, a.k, a.v, a.mask, a.change}) {
    if (!n) continue;
    reference::Array array(n.dtype(), buffer_size(n.arg(0)));
    for (std::int64_t i = 0; i < array.size(); ++i) array.set(i, {0, normal(random)});
    out[n.arg(0)] = array;
  }
  return out;
}

}  // namespace lathe::test
