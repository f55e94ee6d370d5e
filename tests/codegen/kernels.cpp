#include "codegen/kernels.h"

#include <initializer_list>

#include "ir/build.h"
#include "ir/dot.h"

namespace lathe::test {
namespace {

Node global(std::int64_t extent, std::int64_t id) {
  return range(index_const(extent), id, RangeKind::Global);
}
Node loop_over(std::int64_t extent, std::int64_t id) {
  return range(index_const(extent), id, RangeKind::Loop);
}
Node reduce_over(std::int64_t extent, std::int64_t id) {
  return range(index_const(extent), id, RangeKind::Reduce);
}
Node f32(std::int64_t slot, std::int64_t size) { return param(dtypes::Float32, slot, size); }
Node c(std::int64_t v) { return index_const(v); }
Node sum(Node e, std::initializer_list<Node> ranges) {
  return reduce_ranges(Op::Add, e, std::span<const Node>(ranges.begin(), ranges.size()));
}
Node one_store(Node memory, Node index, Node value, std::initializer_list<Node> ranges, Node gate = Node()) {
  Node effect = end(store(memory, index, value, gate), std::span<const Node>(ranges.begin(), ranges.size()));
  return sink({&effect, 1});
}

}  // namespace

Node matmul(std::int64_t m, std::int64_t n, std::int64_t k) {
  Node i = global(m, 0), j = global(n, 1), l = reduce_over(k, 2);
  Node a = load(f32(1, m * k), i * c(k) + l), b = load(f32(2, k * n), l * c(n) + j);
  return one_store(f32(0, m * n), i * c(n) + j, sum(a * b, {l}), {i, j});
}

Node matmul_transposed(std::int64_t m, std::int64_t n, std::int64_t k) {
  Node i = global(m, 0), j = global(n, 1), l = reduce_over(k, 2);
  Node a = load(f32(1, m * k), i * c(k) + l), b = load(f32(2, k * n), j * c(k) + l);
  return one_store(f32(0, m * n), i * c(n) + j, sum(a * b, {l}), {i, j});
}

Node small_matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType a, DType b, DType sum_dtype) {
  Node i = global(m, 0), j = global(n, 1), l = reduce_over(k, 2);
  Node x = load(param(a, 1, m * k), i * c(k) + l), y = load(param(b, 2, k * n), l * c(n) + j);
  return one_store(param(sum_dtype, 0, m * n), i * c(n) + j,
                   sum(cast(x, sum_dtype) * cast(y, sum_dtype), {l}), {i, j});
}

Node seven_bit_matmul(std::int64_t m, std::int64_t n, std::int64_t k) {
  Node i = global(m, 0), j = global(n, 1), l = reduce_over(k, 2);
  Node x = load(param(dtypes::UInt8, 1, m * k), i * c(k) + l),
       y = load(param(dtypes::Int8, 2, k * n), l * c(n) + j);
  Node bits = apply(Op::And, x, int_const(dtypes::UInt8, 127));
  return one_store(param(dtypes::Int32, 0, m * n), i * c(n) + j,
                   sum(cast(bits, dtypes::Int32) * cast(y, dtypes::Int32), {l}), {i, j});
}

Node turned_matmul(std::int64_t m, std::int64_t n, std::int64_t k, bool steps_x, bool steps_y) {
  return unit_matmul(m, n, k, dtypes::BFloat16, dtypes::BFloat16, steps_x, steps_y);
}

Node unit_matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType x_dtype, DType y_dtype, bool steps_x,
                 bool steps_y) {
  Node i = global(m, 0), j = global(n, 1), l = reduce_over(k, 2);
  Node x = load(param(x_dtype, 1, m * k), steps_x ? i * c(k) + l : l * c(m) + i),
       y = load(param(y_dtype, 2, n * k), steps_y ? j * c(k) + l : l * c(n) + j);
  const DType total = x_dtype.is_int() ? dtypes::Int32 : dtypes::Float32;
  auto factor = [&](Node n) { return n.dtype() == dtypes::Float32 ? as_tf32(n) : cast(n, total); };
  return one_store(param(total, 0, m * n), i * c(n) + j, sum(factor(x) * factor(y), {l}), {i, j});
}

Node channel_convolution(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t size,
                         std::int64_t window, std::int64_t every) {
  const std::int64_t whole = (size - 1) * every + window;
  Node b = global(batch, 0), o = global(out, 1), y = global(size, 2), x = global(size, 3),
       i = reduce_over(in, 4), ky = reduce_over(window, 5), kx = reduce_over(window, 6);
  Node image = load(param(dtypes::BFloat16, 1, batch * whole * whole * in),
                    ((b * c(whole) + y * c(every) + ky) * c(whole) + x * c(every) + kx) * c(in) + i),
       weight = load(param(dtypes::BFloat16, 2, out * window * window * in),
                     ((o * c(window) + ky) * c(window) + kx) * c(in) + i);
  return one_store(
      param(dtypes::Float32, 0, batch * out * size * size), ((b * c(out) + o) * c(size) + y) * c(size) + x,
      sum(cast(weight, dtypes::Float32) * cast(image, dtypes::Float32), {i, ky, kx}), {b, o, y, x});
}

Node channel_weight_gradient(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t size,
                             std::int64_t window) {
  const std::int64_t whole = size - 1 + window;
  Node o = global(out, 0), i = global(in, 1), ky = global(window, 2), kx = global(window, 3),
       b = reduce_over(batch, 4), y = reduce_over(size, 5), x = reduce_over(size, 6);
  Node image = load(param(dtypes::BFloat16, 1, batch * whole * whole * in),
                    ((b * c(whole) + y + ky) * c(whole) + x + kx) * c(in) + i),
       gradient = load(param(dtypes::BFloat16, 2, batch * size * size * out),
                       ((b * c(size) + y) * c(size) + x) * c(out) + o);
  return one_store(param(dtypes::Float32, 0, out * in * window * window),
                   ((o * c(in) + i) * c(window) + ky) * c(window) + kx,
                   sum(cast(gradient, dtypes::Float32) * cast(image, dtypes::Float32), {b, y, x}),
                   {o, i, ky, kx});
}

Node product_over_window(std::int64_t m, std::int64_t n, std::int64_t k) {
  Node i = global(m, 0), j = global(n, 1), w = reduce_over(4, 2), l = reduce_over(k, 3);
  Node product = sum(load(f32(1, m * k), i * c(k) + l) * load(f32(2, k * n), l * c(n) + j), {l});
  Node window = load(f32(3, m * n * 4), (i * c(n) + j) * c(4) + w);
  return one_store(f32(0, m * n), i * c(n) + j, product + sum(window, {w}), {i, j});
}

Node bf16_matmul(std::int64_t m, std::int64_t n, std::int64_t k, double added) {
  Node i = global(m, 0), j = global(n, 1), l = reduce_over(k, 2);
  Node x = load(param(dtypes::BFloat16, 1, m * k), i * c(k) + l),
       y = load(param(dtypes::BFloat16, 2, k * n), l * c(n) + j);
  Node total = sum(cast(x, dtypes::Float32) * cast(y, dtypes::Float32), {l});
  if (added != 0) total = total + float_const(dtypes::Float32, added);
  return one_store(param(dtypes::BFloat16, 0, m * n), i * c(n) + j, cast(total, dtypes::BFloat16), {i, j});
}

Node matvec(std::int64_t rows, std::int64_t columns, DType dtype) {
  Node i = global(rows, 0), j = reduce_over(columns, 1);
  Node weight = cast(load(param(dtype, 1, rows * columns), i * c(columns) + j), dtypes::Float32);
  return one_store(f32(0, rows), i, sum(weight * load(f32(2, columns), j), {j}), {i});
}

Node block_matvec(std::int64_t rows, std::int64_t blocks) {
  Node i = global(rows, 0), b = reduce_over(blocks, 1), j = reduce_over(16, 2);
  Node two =
      cast(load(param(dtypes::UInt8, 1, rows * blocks * 16), (i * c(blocks) + b) * c(16) + j), dtypes::Int32);
  Node x = f32(3, blocks * 32), at = b * c(32) + j;
  auto weight = [](Node bits) {
    return cast(apply(Op::Sub, bits, int_const(dtypes::Int32, 8)), dtypes::Float32);
  };
  Node low = weight(apply(Op::And, two, int_const(dtypes::Int32, 15))),
       high = weight(apply(Op::Shr, two, int_const(dtypes::Int32, 4)));
  Node scale = cast(load(param(dtypes::Float16, 2, rows * blocks), i * c(blocks) + b), dtypes::Float32);
  Node products = low * load(x, at) + high * load(x, at + c(16));
  return one_store(f32(0, rows), i, sum(products * scale, {b, j}), {i});
}

Node bf16_matrix_by_vector(std::int64_t n, std::int64_t k) {
  Node j = global(n, 0), l = reduce_over(k, 1);
  Node x = load(param(dtypes::BFloat16, 1, k), l), y = load(param(dtypes::BFloat16, 2, n * k), j * c(k) + l);
  return one_store(f32(0, n), j, sum(cast(x, dtypes::Float32) * cast(y, dtypes::Float32), {l}), {j});
}

Node cast_twice_matmul(std::int64_t m, std::int64_t n, std::int64_t k, DType between) {
  Node i = global(m, 0), j = global(n, 1), l = reduce_over(k, 2);
  Node x = load(param(dtypes::Int8, 1, m * k), i * c(k) + l),
       y = load(param(dtypes::Int8, 2, k * n), l * c(n) + j);
  Node product = cast(cast(x, between), dtypes::Int32) * cast(y, dtypes::Int32);
  return one_store(param(dtypes::Int32, 0, m * n), i * c(n) + j, sum(product, {l}), {i, j});
}

Node gather_matmul(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t table_rows) {
  Node i = global(m, 0), j = global(n, 1), l = reduce_over(k, 2);
  Node row = min(max(cast(load(param(dtypes::Int32, 3, k), l), dtypes::Index), c(0)), c(table_rows - 1));
  Node x = load(param(dtypes::UInt8, 1, m * k), i * c(k) + l),
       y = load(param(dtypes::Int8, 2, table_rows * n), row * c(n) + j);
  return one_store(param(dtypes::Int32, 0, m * n), i * c(n) + j,
                   sum(cast(x, dtypes::Int32) * cast(y, dtypes::Int32), {l}), {i, j});
}

Node block_matvec_bytes(std::int64_t rows, std::int64_t blocks) {
  Node i = global(rows, 0), b = reduce_over(blocks, 1), half = reduce_over(2, 2), j = reduce_over(16, 3);
  Node two = load(param(dtypes::UInt8, 1, rows * blocks * 16), (i * c(blocks) + b) * c(16) + j);
  Node bits =
      apply(Op::And, apply(Op::Shr, two, cast(half * c(4), dtypes::UInt8)), int_const(dtypes::UInt8, 15));
  Node weight = cast(bits, dtypes::Int8) + int_const(dtypes::Int8, -8);
  Node x = load(param(dtypes::Int8, 2, blocks * 32), b * c(32) + half * c(16) + j);
  Node product = cast(weight, dtypes::Int32) * cast(x, dtypes::Int32);
  Node scale = cast(load(param(dtypes::Float16, 3, rows * blocks), i * c(blocks) + b), dtypes::Float32) *
               load(f32(4, blocks), b);
  return one_store(f32(0, rows), i, sum(cast(product, dtypes::Float32) * scale, {b, half, j}), {i});
}

Node nibble_floats(std::int64_t n) {
  Node i = global(n, 0), bits = cast(load(param(dtypes::UInt8, 1, n), i), dtypes::Int32);
  auto number = [](std::int64_t v) { return int_const(dtypes::Int32, v); };
  Node low = cast(apply(Op::And, bits, number(15)) + number(-8), dtypes::Float32);
  Node high = cast(apply(Op::Shr, bits, number(4)) + number(3), dtypes::Float32);
  return one_store(f32(0, n), i, low * float_const(dtypes::Float32, 16) + high, {i});
}

Node byte_block_matvec(std::int64_t rows, std::int64_t blocks) {
  Node i = global(rows, 0), b = reduce_over(blocks, 1), j = reduce_over(32, 2), at = b * c(32) + j;
  Node weight = load(param(dtypes::Int8, 1, rows * blocks * 32), i * c(blocks * 32) + at);
  Node product =
      cast(weight, dtypes::Int32) * cast(load(param(dtypes::Int8, 2, blocks * 32), at), dtypes::Int32);
  Node scale = load(f32(3, rows * blocks), i * c(blocks) + b);
  return one_store(f32(0, rows), i, sum(cast(product, dtypes::Float32) * scale, {b, j}), {i});
}

Node packed_block_product(std::int64_t others, std::int64_t rows, std::int64_t blocks) {
  Node o = global(others, 0), i = global(rows, 1), b = reduce_over(blocks, 2), j = reduce_over(32, 3);
  Node memory = param(dtypes::UInt8, 1, rows * blocks * 34), at = (i * c(blocks) + b) * c(34);
  Node low = cast(load(memory, at), dtypes::UInt16), high = cast(load(memory, at + c(1)), dtypes::UInt16);
  // Below infinity, whatever the bytes are.
  Node finite = apply(Op::And, apply(Op::Or, apply(Op::Shl, high, int_const(dtypes::UInt16, 8)), low),
                      int_const(dtypes::UInt16, 0xbfff));
  Node weight = bitcast(load(memory, at + j + c(2)), dtypes::Int8);
  Node x = load(param(dtypes::Int8, 2, others * blocks * 32), (o * c(blocks) + b) * c(32) + j);
  Node product = cast(weight, dtypes::Int32) * cast(x, dtypes::Int32);
  Node scale = cast(bitcast(finite, dtypes::Float16), dtypes::Float32) *
               load(f32(3, others * blocks), o * c(blocks) + b);
  Node total = sum(cast(product, dtypes::Float32) * scale, {b, j});
  return one_store(f32(0, others * rows), o * c(rows) + i, total, {o, i});
}

Node row_sum(std::int64_t rows, std::int64_t columns) {
  Node i = global(rows, 0), j = reduce_over(columns, 1);
  return one_store(f32(0, rows), i, sum(load(f32(1, rows * columns), i * c(columns) + j), {j}), {i});
}

Node neighbour_sums(std::int64_t n, std::int64_t every, std::int64_t neighbours, std::int64_t first) {
  Node i = global(n, 0), j = reduce_over(neighbours, 1);
  const std::int64_t size = first + (n - 1) * every + std::max(every, neighbours);
  return one_store(f32(0, n), i, sum(load(f32(1, size), i * c(every) + j + c(first)), {j}), {i});
}

Node row_max(std::int64_t rows, std::int64_t columns) {
  Node i = global(rows, 0), j = reduce_over(columns, 1);
  Node largest = reduce_ranges(Op::Max, load(f32(1, rows * columns), i * c(columns) + j), {&j, 1});
  return one_store(f32(0, rows), i, largest, {i});
}

Node column_sum(std::int64_t rows, std::int64_t columns) {
  Node i = global(columns, 0), j = reduce_over(rows, 1);
  return one_store(f32(0, columns), i, sum(load(f32(1, rows * columns), j * c(columns) + i), {j}), {i});
}

Node column_sums(std::int64_t parts, std::int64_t rows, std::int64_t columns) {
  Node p = global(parts, 0), i = global(columns, 1), j = reduce_over(rows, 2);
  Node at = (p * c(rows) + j) * c(columns) + i;
  Node value = sum(load(f32(1, parts * rows * columns), at), {j});
  return one_store(f32(0, parts * columns), p * c(columns) + i, value, {p, i});
}

Node powers_of_two(std::int64_t n) {
  Node i = global(n, 0);
  return one_store(f32(0, n), i, apply(Op::Exp2, load(f32(1, n), i)), {i});
}

Node scale_add(std::int64_t n) {
  Node i = global(n, 0);
  Node value = load(f32(1, n), i) * load(f32(2, n), i) + float_const(dtypes::Float32, 2);
  return one_store(f32(0, n), i, value, {i});
}

Node scaled(std::int64_t n) {
  Node i = global(n, 0);
  return one_store(f32(0, n), i, load(f32(1, n), i) * float_const(dtypes::Float32, 2), {i});
}

Node transpose(std::int64_t rows, std::int64_t columns) {
  Node i = global(columns, 0), j = global(rows, 1);
  return one_store(f32(0, rows * columns), i * c(rows) + j, load(f32(1, rows * columns), j * c(columns) + i),
                   {i, j});
}

// Same padding: out[b, o, y, x] = sum W[o, i, ky, kx] * X[b, i, y + ky - pad, x + kx - pad].
Node convolution(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t size,
                 std::int64_t window, DType dtype) {
  Node b = global(batch, 0), o = global(out, 1), y = global(size, 2), x = global(size, 3);
  Node i = reduce_over(in, 4), ky = reduce_over(window, 5), kx = reduce_over(window, 6);
  Node pad = c(-(window / 2));
  Node sy = y + ky + pad, sx = x + kx + pad;
  Node inside = logical_and(logical_and(less(c(-1), sy), less(sy, c(size))),
                            logical_and(less(c(-1), sx), less(sx, c(size))));
  Node pixel = load(param(dtype, 1, batch * in * size * size),
                    ((b * c(in) + i) * c(size) + sy) * c(size) + sx, inside);
  Node weight =
      load(param(dtype, 2, out * in * window * window), ((o * c(in) + i) * c(window) + ky) * c(window) + kx);
  Node index = ((b * c(out) + o) * c(size) + y) * c(size) + x;
  return one_store(f32(0, batch * out * size * size), index,
                   sum(cast(weight, dtypes::Float32) * cast(pixel, dtypes::Float32), {i, ky, kx}),
                   {b, o, y, x});
}

Node depthwise(std::int64_t channels, std::int64_t size, std::int64_t window, std::int64_t every) {
  const std::int64_t n = (size - 1) / every + 1;
  Node ch = global(channels, 0), y = global(n, 1), x = global(n, 2);
  Node ky = reduce_over(window, 3), kx = reduce_over(window, 4);
  Node pad = c(-(window / 2));
  Node sy = y * c(every) + ky + pad, sx = x * c(every) + kx + pad;
  Node inside = logical_and(logical_and(less(c(-1), sy), less(sy, c(size))),
                            logical_and(less(c(-1), sx), less(sx, c(size))));
  Node pixel = load(f32(1, channels * size * size), (ch * c(size) + sy) * c(size) + sx, inside);
  Node weight = load(f32(2, channels * window * window), (ch * c(window) + ky) * c(window) + kx);
  return one_store(f32(0, channels * n * n), (ch * c(n) + y) * c(n) + x, sum(weight * pixel, {ky, kx}),
                   {ch, y, x});
}

// dX[b, i, y, x] = sum W[o, i, ky, kx] * G[b, o, y - ky, x - kx], X without a border: G has a wide one.
Node input_gradient(std::int64_t batch, std::int64_t in, std::int64_t out, std::int64_t size,
                    std::int64_t window) {
  const std::int64_t n = size - window + 1;
  Node b = global(batch, 0), i = global(in, 1), y = global(size, 2), x = global(size, 3);
  Node ky = reduce_over(window, 4), kx = reduce_over(window, 5), o = reduce_over(out, 6);
  Node sy = y + ky * c(-1), sx = x + kx * c(-1);
  Node inside =
      logical_and(logical_and(less(c(-1), sy), less(sy, c(n))), logical_and(less(c(-1), sx), less(sx, c(n))));
  Node g = load(f32(1, batch * out * n * n), ((b * c(out) + o) * c(n) + sy) * c(n) + sx, inside);
  Node weight = load(f32(2, out * in * window * window), ((o * c(in) + i) * c(window) + ky) * c(window) + kx);
  Node index = ((b * c(in) + i) * c(size) + y) * c(size) + x;
  return one_store(f32(0, batch * in * size * size), index, sum(weight * g, {ky, kx, o}), {b, i, y, x});
}

// out[o, ky, kx] = sum G[b, o, y, x] * X[b, y + ky, x + kx], with nothing around X.
Node weight_gradient(std::int64_t batch, std::int64_t out, std::int64_t size, std::int64_t window) {
  const std::int64_t n = size - window + 1;
  Node o = global(out, 0), ky = global(window, 1), kx = global(window, 2);
  Node b = reduce_over(batch, 3), y = reduce_over(n, 4), x = reduce_over(n, 5);
  Node pixel = load(f32(1, batch * size * size), (b * c(size) + y + ky) * c(size) + x + kx);
  Node g = load(f32(2, batch * out * n * n), ((b * c(out) + o) * c(n) + y) * c(n) + x);
  return one_store(f32(0, out * window * window), (o * c(window) + ky) * c(window) + kx,
                   sum(pixel * g, {b, y, x}), {o, ky, kx});
}

Node softmax_denominator(std::int64_t rows, std::int64_t columns) {
  Node i = global(rows, 0), j = reduce_over(columns, 1);
  Node x = load(f32(1, rows * columns), i * c(columns) + j);
  Node largest = reduce_ranges(Op::Max, x, {&j, 1});
  return one_store(f32(0, rows), i, sum(apply(Op::Exp2, x - largest), {j}), {i});
}

Node variances(std::int64_t rows, std::int64_t columns) {
  Node i = global(rows, 0), j = reduce_over(columns, 1), k = reduce_over(columns, 2);
  Node x = f32(1, rows * columns), row = i * c(columns);
  Node mean = sum(load(x, row + j), {j}) * float_const(dtypes::Float32, 1.0 / static_cast<double>(columns));
  Node off = load(x, row + k) - mean;
  return one_store(f32(0, rows), i, sum(off * off, {k}), {i});
}

Node softmax_rows(std::int64_t rows, std::int64_t columns, bool transposed) {
  Node i = global(rows, 0), j = loop_over(columns, 1), t = loop_over(columns, 2);
  Node k = reduce_over(columns, 3), l = reduce_over(columns, 4);
  auto x = [&](Node at) {
    return load(f32(1, rows * columns), transposed ? at * c(rows) + i : i * c(columns) + at);
  };
  Node largest = reduce_ranges(Op::Max, x(k), {&k, 1});
  Node panel = define(dtypes::Float32, 0, columns, Space::Register);
  Node filled = end(store(after(panel, {&i, 1}), t, apply(Op::Exp2, x(t) - largest)), {&t, 1});
  Node ready = after(panel, {&filled, 1});
  return one_store(f32(0, rows * columns), i * c(columns) + j, load(ready, j) / sum(load(ready, l), {l}),
                   {i, j});
}

Node centred_rows(std::int64_t rows, std::int64_t columns) {
  Node i = global(rows, 0), j = loop_over(columns, 1), k = reduce_over(columns, 2),
       l = reduce_over(columns, 3);
  Node x = f32(1, rows * columns), row = i * c(columns), both[] = {i, j};
  Node mean = sum(load(x, row + k), {k}) * float_const(dtypes::Float32, 1.0 / static_cast<double>(columns));
  Node off = load(x, row + l) - mean;
  Node square = sum(off * off, {l});
  Node effects[] = {end(store(f32(0, rows * columns), row + j, (load(x, row + j) - mean) * square), both),
                    end(store(f32(2, rows), i, mean), {&i, 1})};
  return sink(effects);
}

// out[i] = sum_j Y[j] * (index[i] == (sum_k mask(j, k)) - 1): the gather Y[index] where mask(j, k) is k <= j.
Node masked_reduce_in_reduce(std::int64_t ni, std::int64_t nj, std::int64_t nk) {
  Node i = global(ni, 0), j = reduce_over(nj, 1), k = reduce_over(nk, 2);
  Node one = int_const(dtypes::Int32, 1), zero = int_const(dtypes::Int32, 0);
  Node count = sum(where(less(k, j + c(1)), one, zero), {k});
  Node hit = equal(load(param(dtypes::Int32, 2, ni), i), count + int_const(dtypes::Int32, -1));
  Node element = where(hit, load(param(dtypes::UInt8, 1, nj), j), int_const(dtypes::UInt8, 0));
  return one_store(param(dtypes::UInt8, 0, ni), i, sum(element, {j}), {i});
}

// The same with a reduce inside the inner one: mask(j, k) is (sum_l l <= k) - 1 <= j.
Node masked_reduces_in_reduce(std::int64_t ni, std::int64_t nj, std::int64_t nk, std::int64_t nl) {
  Node i = global(ni, 0), j = reduce_over(nj, 1), k = reduce_over(nk, 2), l = reduce_over(nl, 3);
  Node one = int_const(dtypes::Int32, 1), zero = int_const(dtypes::Int32, 0);
  Node inner = sum(where(less(l, k + c(1)), one, zero), {l});
  Node count = sum(where(less(inner, cast(j, dtypes::Int32) + int_const(dtypes::Int32, 2)), one, zero), {k});
  Node hit = equal(load(param(dtypes::Int32, 2, ni), i), count + int_const(dtypes::Int32, -1));
  Node element = where(hit, load(param(dtypes::UInt8, 1, nj), j), int_const(dtypes::UInt8, 0));
  return one_store(param(dtypes::UInt8, 0, ni), i, sum(element, {j}), {i});
}

Node arg_max(std::int64_t rows, std::int64_t columns) {
  Node i = global(rows, 0), j = reduce_over(columns, 1);
  Node x = load(f32(1, rows * columns), i * c(columns) + j);
  AttrData best_name{"", {0, 0, 0}}, where_name{"", {0, 1, 0}}, fold_name{"", {0, 2, 0}};
  Node best = intern(Op::Carry, dtypes::Float32, {}, Attr::of(best_name));
  Node place = intern(Op::Carry, dtypes::Int32, {}, Attr::of(where_name));
  Node better = less(best, x);
  Node low = element_const(dtypes::Float32, unit_of(Op::Max, dtypes::Float32));
  Node fold = intern(Op::Fold, dtypes::Void,
                     {low, int_const(dtypes::Int32, 0), where(better, x, best),
                      where(better, cast(j, dtypes::Int32), place), j},
                     Attr::of(fold_name));
  Node result = intern(Op::Get, dtypes::Int32, {fold}, Attr::of(std::int64_t{1}));
  return one_store(param(dtypes::Int32, 0, rows), i, result, {i});
}

Node attention(std::int64_t rows, std::int64_t tiles, std::int64_t tile, std::int64_t width, bool causal) {
  const DType f = dtypes::Float32;
  const std::int64_t keys = tiles * tile;
  Node i = global(rows, 0), d = loop_over(width, 1), t = loop_over(tile, 2), u = loop_over(tile, 3);
  Node j = reduce_over(tiles, 4), a = reduce_over(tile, 5), b = reduce_over(tile, 6),
       g = reduce_over(tile, 7);
  Node e = reduce_over(width, 8), around[] = {i, j};
  auto panel = [&](std::int64_t id, Node at, Node value) {
    Node memory = define(f, id, tile, Space::Register);
    Node filled = end(store(after(memory, around), at, value), {&at, 1});
    return after(memory, {&filled, 1});
  };
  auto carry = [&](std::int64_t n) {
    AttrData name{"", {0, n, 0}};
    return intern(Op::Carry, f, {}, Attr::of(name));
  };
  Node key = (j * c(tile) + t) * c(width) + e;
  Node low = element_const(f, unit_of(Op::Max, f)), zero = float_const(f, 0);
  Node score = sum(load(f32(1, rows * width), i * c(width) + e) * load(f32(2, keys * width), key), {e});
  Node later = less(cast(i, dtypes::Int32), cast(j * c(tile) + t, dtypes::Int32));
  Node s = panel(0, t, causal ? where(later, low, score) : score);
  Node m = max(carry(0), reduce_ranges(Op::Max, load(s, a), {&a, 1}));
  Node shift = where(equal(m, low), zero, m);
  Node p = panel(1, u, apply(Op::Exp2, load(s, u) - shift));
  Node again = apply(Op::Exp2, carry(0) - shift);
  Node l = carry(1) * again + sum(load(p, b), {b});
  Node o =
      carry(2) * again + sum(load(p, g) * load(f32(3, keys * width), (j * c(tile) + g) * c(width) + d), {g});
  AttrData name{"", {0, 3, 0}};
  Node fold = intern(Op::Fold, dtypes::Void, {low, zero, zero, m, l, o, j}, Attr::of(name));
  auto get = [&](std::int64_t n) { return intern(Op::Get, f, {fold}, Attr::of(n)); };
  return one_store(f32(0, rows * width), i * c(width) + d, get(2) / get(1), {i, d});
}

Node unit_attention(std::int64_t heads, std::int64_t rows, std::int64_t tiles, std::int64_t width,
                    bool causal) {
  constexpr std::int64_t kTile = 128;
  const DType f = dtypes::Float32, b = dtypes::BFloat16;
  const std::int64_t keys = tiles * kTile;
  Node h = global(heads, 0), i = global(rows, 1), t = loop_over(kTile, 2), u = loop_over(kTile, 3),
       d = loop_over(width, 4);
  Node j = reduce_over(tiles, 5), largest = reduce_over(kTile, 6), total = reduce_over(kTile, 7),
       term = reduce_over(kTile, 8), e = reduce_over(width, 9), around[] = {h, i, j};
  auto panel = [&](std::int64_t id, Node at, Node value) {
    Node memory = define(f, id, kTile, Space::Register);
    Node filled = end(store(after(memory, around), at, value), {&at, 1});
    return after(memory, {&filled, 1});
  };
  auto carry = [&](std::int64_t n) {
    AttrData name{"", {0, n, 0}};
    return intern(Op::Carry, f, {}, Attr::of(name));
  };
  auto key = [&](Node within) { return (h * c(keys) + j * c(kTile) + within) * c(width); };
  auto number = [&](std::int64_t slot, std::int64_t size, Node at) {
    return cast(load(param(b, slot, size), at), f);
  };
  Node low = element_const(f, unit_of(Op::Max, f)), zero = float_const(f, 0), scale = float_const(f, 0.125);
  Node score = sum(number(1, heads * rows * width, (h * c(rows) + i) * c(width) + e) *
                       number(2, heads * keys * width, key(t) + e),
                   {e});
  Node later = less(cast(i, dtypes::Int32), cast(j * c(kTile) + t, dtypes::Int32));
  Node s = panel(0, t, causal ? where(later, low, score) : score);
  Node m = max(carry(0), reduce_ranges(Op::Max, load(s, largest), {&largest, 1}));
  Node shift = where(equal(m, low), zero, m);
  Node p = panel(1, u, apply(Op::Exp2, load(s, u) * scale + apply(Op::Neg, shift * scale)));
  Node again = apply(Op::Exp2, (carry(0) - shift) * scale);
  Node l = carry(1) * again + sum(load(p, total), {total});
  Node o = carry(2) * again +
           sum(cast(cast(load(p, term), b), f) * number(3, heads * keys * width, key(term) + d), {term});
  AttrData name{"", {0, 3, 0}};
  Node fold = intern(Op::Fold, dtypes::Void, {low, zero, zero, m, l, o, j}, Attr::of(name));
  auto get = [&](std::int64_t n) { return intern(Op::Get, f, {fold}, Attr::of(n)); };
  return one_store(param(b, 0, heads * rows * width), (h * c(rows) + i) * c(width) + d,
                   cast(get(2) / get(1), b), {h, i, d});
}

Node ragged_sum(std::int64_t rows, std::int64_t width) {
  Node i = global(rows, 0);
  Node length = min(max(cast(load(param(dtypes::Int32, 2, rows), i), dtypes::Index), c(0)), c(width));
  Node j = range(length, 1, RangeKind::Reduce);
  return one_store(f32(0, rows), i, sum(load(f32(1, rows * width), i * c(width) + j), {j}), {i});
}

Node symbolic_rows(std::int64_t most, std::int64_t columns) {
  Node i = range(variable("n", 1, most), 0, RangeKind::Global), j = reduce_over(columns, 1);
  return one_store(f32(0, most), i, sum(load(f32(1, most * columns), i * c(columns) + j), {j}), {i});
}

Node symbolic_columns(std::int64_t rows, std::int64_t most) {
  Node i = global(rows, 0), j = range(variable("n", 1, most), 1, RangeKind::Reduce);
  return one_store(f32(0, rows), i, sum(load(f32(1, rows * most), i * c(most) + j), {j}), {i});
}

Node two_outputs(std::int64_t rows, std::int64_t columns) {
  Node i = global(rows, 0), j = reduce_over(columns, 1);
  Node x = load(f32(1, rows * columns), i * c(columns) + j);
  Node effects[] = {end(store(f32(0, rows), i, sum(x, {j})), {&i, 1}),
                    end(store(f32(2, rows), i, sum(x * x, {j})), {&i, 1})};
  return sink(effects);
}

// One store over both ranges, one over the inner alone.
Node outputs_of_different_shape(std::int64_t rows, std::int64_t columns) {
  Node i = global(rows, 0), j = global(columns, 1), k = reduce_over(rows, 2);
  Node below = sum(load(f32(1, rows * columns), k * c(columns) + j), {k}), both[] = {i, j};
  Node effects[] = {end(store(f32(0, rows * columns), i * c(columns) + j,
                              load(f32(1, rows * columns), i * c(columns) + j) * below),
                        both),
                    end(store(f32(2, columns), j, below), {&j, 1})};
  return sink(effects);
}

// v = v / 2 + g; w = w - v, as a joined step writes it: both stores read the old v.
Node momentum_step(std::int64_t n) {
  Node i = global(n, 0), v = load(f32(0, n), i), w = load(f32(1, n), i);
  Node fresh = v * float_const(dtypes::Float32, 0.5) + load(f32(2, n), i);
  Node effects[] = {end(store(f32(0, n), i, fresh), {&i, 1}), end(store(f32(1, n), i, w - fresh), {&i, 1})};
  return sink(effects);
}

Node sum_and_update(std::int64_t rows, std::int64_t columns) {
  Node i = global(rows, 0), j = reduce_over(columns, 1), v = load(f32(0, rows), i);
  Node fresh = v + sum(load(f32(2, rows * columns), i * c(columns) + j), {j});
  Node effects[] = {end(store(f32(0, rows), i, fresh), {&i, 1}),
                    end(store(f32(1, rows), i, load(f32(1, rows), i) * v - fresh), {&i, 1})};
  return sink(effects);
}

Node bias_relu_matmul(std::int64_t m, std::int64_t n, std::int64_t k) {
  Node i = global(m, 0), j = global(n, 1), l = reduce_over(k, 2);
  Node a = load(f32(1, m * k), i * c(k) + l), b = load(f32(2, k * n), l * c(n) + j);
  Node value = max(sum(a * b, {l}) + load(f32(3, n), j), float_const(dtypes::Float32, 0));
  return one_store(f32(0, m * n), i * c(n) + j, value, {i, j});
}

Node total(std::int64_t n) {
  Node j = reduce_over(n, 0);
  return one_store(f32(0, 1), c(0), sum(load(f32(1, n), j), {j}), {});
}

Node flipped_rows(std::int64_t rows, std::int64_t columns) {
  Node i = global(rows, 0), j = global(columns, 1);
  Node x = load(f32(1, rows * columns), i * c(columns) + j * c(-1) + c(columns - 1), less(j, c(columns / 2)));
  return one_store(f32(0, rows * columns), i * c(columns) + j, x + float_const(dtypes::Float32, 1), {i, j});
}

Node unskewed_windows(std::int64_t rows, std::int64_t n, std::int64_t apart) {
  Node i = global(rows, 0), o = global(n, 1), m = global(2, 2), q = reduce_over(2, 3);
  Node shifted = m + c(1), window = o + floor_div(shifted, c(2)) + q * c(-1);
  Node inside = logical_and(less(c(-1), window), less(window, c(n)));
  Node x = load(f32(1, rows * n * apart),
                (i * c(n) + window) * c(apart) + q * c(2) + floor_mod(shifted, c(2)), inside);
  return one_store(f32(0, rows * n * 2), (i * c(n) + o) * c(2) + m, sum(x, {q}), {i, o, m});
}

Node bytes_to_floats(std::int64_t n) {
  Node i = global(n, 0);
  Node value = cast(load(param(dtypes::UInt8, 1, n), i), dtypes::Float32) * float_const(dtypes::Float32, 0.5);
  return one_store(f32(0, n), i, value, {i});
}

Node scatter_sum(std::int64_t batch, std::int64_t rows, std::int64_t steps, std::int64_t width) {
  Node b = global(batch, 0), v = global(rows, 1), d = global(width, 2), t = reduce_over(steps, 3);
  Node row = cast(load(param(dtypes::Int32, 2, batch * steps), b * c(steps) + t), dtypes::Index);
  Node x = load(f32(1, batch * steps * width), (b * c(steps) + t) * c(width) + d, equal(row, v));
  return one_store(f32(0, batch * rows * width), (b * c(rows) + v) * c(width) + d, sum(x, {t}), {b, v, d});
}

Node scatter_last(std::int64_t batch, std::int64_t rows, std::int64_t steps) {
  Node b = global(batch, 0), v = global(rows, 1), t = reduce_over(steps, 2);
  Node row = cast(load(param(dtypes::Int32, 1, batch * steps), b * c(steps) + t), dtypes::Index);
  Node none = element_const(dtypes::Int32, unit_of(Op::Max, dtypes::Int32));
  Node last = reduce_ranges(Op::Max, where(equal(row, v), cast(t, dtypes::Int32), none), {&t, 1});
  return one_store(param(dtypes::Int32, 0, batch * rows), b * c(rows) + v, last, {b, v});
}

Node running_sum(std::int64_t batch, std::int64_t steps, std::int64_t width) {
  Node b = global(batch, 0), i = global(steps, 1), d = global(width, 2), t = reduce_over(steps, 3);
  Node x = load(f32(1, batch * steps * width), (b * c(steps) + t) * c(width) + d, logical_not(less(i, t)));
  return one_store(f32(0, batch * steps * width), (b * c(steps) + i) * c(width) + d,
                   sum(x, {t}) * float_const(dtypes::Float32, 2), {b, i, d});
}

Node running_max(std::int64_t batch, std::int64_t steps) {
  Node b = global(batch, 0), i = global(steps, 1), t = reduce_over(steps, 2);
  Node none = element_const(dtypes::Float32, unit_of(Op::Max, dtypes::Float32));
  Node x = where(logical_not(less(i, t)), load(f32(1, batch * steps), b * c(steps) + t), none);
  return one_store(f32(0, batch * steps), b * c(steps) + i, reduce_ranges(Op::Max, x, {&t, 1}), {b, i});
}

Node running_count(std::int64_t batch, std::int64_t steps, std::int64_t groups) {
  Node b = global(batch, 0), i = global(steps, 1), t = reduce_over(steps, 2);
  auto group = [&](Node at) {
    return cast(load(param(dtypes::Int32, 1, batch * steps), b * c(steps) + at), dtypes::Index);
  };
  Node mine = group(t), inside = logical_and(logical_not(less(mine, c(0))), less(mine, c(groups)));
  Node counts = logical_and(logical_and(logical_not(less(i, t)), equal(mine, group(i))), inside);
  return one_store(param(dtypes::Int32, 0, batch * steps), b * c(steps) + i,
                   sum(cast(counts, dtypes::Int32), {t}), {b, i});
}

Node every_few_steps(std::int64_t rows, std::int64_t n, std::int64_t window, std::int64_t every) {
  Node i = global(rows, 0), o = global(n, 1), k = reduce_over(window, 2), back = o + k * c(-1);
  Node counts = logical_and(equal(floor_mod(back, c(every)), c(0)), logical_not(less(back, c(0))));
  return one_store(f32(0, rows * n), i * c(n) + o,
                   sum(load(f32(1, rows * window), i * c(window) + k, counts), {k}), {i, o});
}

std::vector<NamedKernel> small_kernels() {
  return {
      {"scatter_sum 3x7x9x5", scatter_sum(3, 7, 9, 5)},
      {"scatter_sum 2x16x12x8", scatter_sum(2, 16, 12, 8)},
      {"scatter_last 4x9x7", scatter_last(4, 9, 7)},
      {"running_sum 3x7x5", running_sum(3, 7, 5)},
      {"running_sum 2x8x16", running_sum(2, 8, 16)},
      {"running_max 6x13", running_max(6, 13)},
      {"running_count 3x11x10", running_count(3, 11, 10)},
      {"every_few_steps 3x3x3, every 3", every_few_steps(3, 3, 3, 3)},
      {"every_few_steps 2x16x5, every 2", every_few_steps(2, 16, 5, 2)},
      {"matmul 8x16x8", matmul(8, 16, 8)},
      {"matmul 5x7x3", matmul(5, 7, 3)},
      {"matmul_transposed 6x10x16", matmul_transposed(6, 10, 16)},
      {"bf16 matvec 6x40", matvec(6, 40, dtypes::BFloat16)},
      {"i8 matvec 5x33", matvec(5, 33, dtypes::Int8)},
      {"block_matvec 5x3", block_matvec(5, 3)},
      {"block_matvec_bytes 6x16", block_matvec_bytes(6, 16)},
      {"block_matvec_bytes 3x5", block_matvec_bytes(3, 5)},
      {"byte_block_matvec 4x16", byte_block_matvec(4, 16)},
      {"packed_block_product 3x4x8", packed_block_product(3, 4, 8)},
      {"row_sum 5x32", row_sum(5, 32)},
      {"row_sum 4x13", row_sum(4, 13)},
      {"row_max 6x17", row_max(6, 17)},
      {"neighbour_sums 40, every 2", neighbour_sums(40, 2, 2)},
      {"neighbour_sums 32, every 3", neighbour_sums(32, 3, 3)},
      {"neighbour_sums 48, every 4, from 1", neighbour_sums(48, 4, 2, 1)},
      {"neighbour_sums 24, every 2, 3 of them", neighbour_sums(24, 2, 3)},
      {"matmul 3x3x64", matmul(3, 3, 64)},
      {"column_sum 9x16", column_sum(9, 16)},
      {"column_sum 7x5", column_sum(7, 5)},
      {"column_sums 3x4x10", column_sums(3, 4, 10)},
      {"scale_add 64", scale_add(64)},
      {"scale_add 37", scale_add(37)},
      {"transpose 6x10", transpose(6, 10)},
      {"transpose 4x32", transpose(4, 32)},
      {"transpose 3x16", transpose(3, 16)},
      {"transpose 32x2", transpose(32, 2)},
      {"convolution 2,3,4,6,3", convolution(2, 3, 4, 6, 3)},
      {"depthwise 3,11,3", depthwise(3, 11, 3)},
      {"depthwise 3,16,3, every 2", depthwise(3, 16, 3, 2)},
      {"input_gradient 2,16,8,6,3", input_gradient(2, 16, 8, 6, 3)},
      {"weight_gradient 4,5,6,3", weight_gradient(4, 5, 6, 3)},
      {"softmax_denominator 5x12", softmax_denominator(5, 12)},
      {"variances 5x24", variances(5, 24)},
      {"softmax_rows 5x12", softmax_rows(5, 12)},
      {"softmax_rows 8x7", softmax_rows(8, 7)},
      {"softmax_rows 3x2, transposed", softmax_rows(3, 2, true)},
      {"softmax_rows 4x8, transposed", softmax_rows(4, 8, true)},
      {"centred_rows 6x16", centred_rows(6, 16)},
      {"centred_rows 4x96", centred_rows(4, 96)},
      {"centred_rows 3x9", centred_rows(3, 9)},
      {"masked_reduce_in_reduce 6,9,9", masked_reduce_in_reduce(6, 9, 9)},
      {"masked_reduces_in_reduce 3,7,7,7", masked_reduces_in_reduce(3, 7, 7, 7)},
      {"arg_max 5x11", arg_max(5, 11)},
      {"attention 6x3x4x8", attention(6, 3, 4, 8)},
      {"attention 3x2x5x7", attention(3, 2, 5, 7)},
      {"causal attention 10x3x4x8", attention(10, 3, 4, 8, true)},
      {"ragged_sum 7x6", ragged_sum(7, 6)},
      {"symbolic_rows 9x6", symbolic_rows(9, 6)},
      {"symbolic_columns 6x9", symbolic_columns(6, 9)},
      {"two_outputs 6x14", two_outputs(6, 14)},
      {"outputs_of_different_shape 5x12", outputs_of_different_shape(5, 12)},
      {"momentum_step 37", momentum_step(37)},
      {"sum_and_update 6x14", sum_and_update(6, 14)},
      {"bias_relu_matmul 7x12x10", bias_relu_matmul(7, 12, 10)},
      {"total 50", total(50)},
      {"flipped_rows 5x12", flipped_rows(5, 12)},
      {"unskewed_windows 3x6", unskewed_windows(3, 6)},
      {"unskewed_windows 3x6, 8 apart", unskewed_windows(3, 6, 8)},
      {"bytes_to_floats 40", bytes_to_floats(40)},
      {"bf16 matmul 6x20x8", small_matmul(6, 20, 8, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32)},
      {"bf16 matmul 5x16x7", small_matmul(5, 16, 7, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32)},
      {"i8 matmul 6x16x12", small_matmul(6, 16, 12, dtypes::Int8, dtypes::Int8, dtypes::Int32)},
      {"i8 matmul 5x9x7", small_matmul(5, 9, 7, dtypes::Int8, dtypes::Int8, dtypes::Int32)},
      {"u8 by i8 matmul 4x20x8", small_matmul(4, 20, 8, dtypes::UInt8, dtypes::Int8, dtypes::Int32)},
      {"i8 by u8 matmul 4x20x8", small_matmul(4, 20, 8, dtypes::Int8, dtypes::UInt8, dtypes::Int32)},
      {"u8 matmul 5x16x6", small_matmul(5, 16, 6, dtypes::UInt8, dtypes::UInt8, dtypes::Int32)},
      {"i16 matmul 5x16x9", small_matmul(5, 16, 9, dtypes::Int16, dtypes::Int16, dtypes::Int32)},
      {"u7 by i8 matmul 5x17x11", seven_bit_matmul(5, 17, 11)},
      {"nibble_floats 70", nibble_floats(70)},
  };
}

}  // namespace lathe::test
