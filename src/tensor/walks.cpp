#include "tensor/walks.h"

#include <algorithm>

#include "runtime/registry.h"
#include "tensor/gather.h"
#include "tensor/impl.h"
#include "tensor/rows.h"

namespace lathe {

bool walks_in_order(const std::string& device) {
  const DeviceName name = parse_device_name(device);
  const Backend* backend = registry().find(name.backend);
  if (backend == nullptr || !backend->compiler) return false;
  return backend->compiler(name.target)->target().has_fast_threads();
}

std::int64_t walks_for(double others, std::int64_t steps) {
  constexpr double kEnough = 16;
  constexpr std::int64_t kShort = 1 << 14;
  std::int64_t walks = 1;
  while (others * static_cast<double>(walks) < kEnough && steps / (2 * walks) >= kShort) walks *= 2;
  return walks;
}

Tensor scan_in_order(Op op, const Tensor& x, std::int64_t axis, Number unit) {
  // A long running sum of floats loses digits, and has one thread: pieces are summed up from what came
  // before.
  constexpr std::int64_t kLong = 1 << 16, kPiece = 1 << 14;
  const std::int64_t n = x.size(axis), rank = x.ndim();
  std::int64_t others = 1;
  for (std::int64_t a = 0; a < rank; ++a) others *= a == axis ? 1 : x.size(a).max();
  std::int64_t pieces = walks_for(static_cast<double>(others), n);
  if (n >= kLong) pieces = std::max(pieces, n / kPiece);
  if (pieces < 2) return make_tensor(scan(op, node_of(x), axis), x.device(), is_tracked(x));
  const std::int64_t steps = (n + pieces - 1) / pieces;
  Tensor last = x.movedim(axis, -1);
  std::vector<std::pair<Size, Size>> padding(static_cast<std::size_t>(rank), {0, 0}), shift = padding;
  padding.back() = {0, pieces * steps - n};
  shift.back() = {1, -1};
  Shape shape = last.shape(), whole = shape, out = shape;
  shape.back() = pieces;
  shape.push_back(steps);
  whole.back() = pieces * steps;
  Tensor inner = scan_in_order(op, last.pad(padding, unit).reshape(shape), rank, unit);
  Tensor totals = inner.getitem({kEllipsis, -1});
  Tensor before = scan_in_order(op, totals, rank - 1, unit).pad(shift, unit);
  return primitive(op, inner, before.unsqueeze(-1)).reshape(whole).shrink_to(out).movedim(-1, axis);
}

Tensor scan_in_groups(Op op, const Tensor& x, std::int64_t axis, const Tensor& index, std::int64_t groups) {
  return make_tensor(scan_by(op, node_of(x), axis, node_of(index), index_const(groups)), x.device());
}

Tensor scatter_in_order(Op op, const Tensor& x, const Tensor& index, const Size& rows) {
  return make_tensor(scatter(op, node_of(x), node_of(index), size_node(rows)), x.device(), is_tracked(x));
}

namespace {

// x summed up from the end of the axis.
Tensor sums_from_end(const Tensor& x, std::int64_t axis) {
  return scan_in_order(Op::Add, x.flip({axis}), axis, 0).flip({axis});
}

// d(out_i)/dx_j is out_i / x_j, except where there is a 0: the first of them gets the products without it, up
// to the next one; what comes after it gets nothing, and gives nothing to what is before, whatever its own
// gradient is.
Tensor product_gradient(const Tensor& g, const Tensor& x, const Tensor& out, std::int64_t axis) {
  Tensor zero = x == 0, zeros = scan_in_order(Op::Add, zero.cast(dtypes::int32), axis, 0);
  Tensor first = zero & (zeros == 1);
  Tensor without = scan_in_order(Op::Mul, first.where(1, x), axis, 1);
  Tensor at_first = first.where(sums_from_end((zeros == 1).where(g * without, 0), axis), 0);
  Tensor before = zeros == 0;
  return before.where(sums_from_end(before.where(g * out, 0), axis) / zero.where(1, x), at_first);
}

// All to the element that was the extreme, the last of equals.
Tensor extreme_gradient(const Tensor& g, const Tensor& x, const Tensor& out, std::int64_t axis) {
  Tensor line = iota_along(x.size(axis), axis, x.ndim(), dtypes::int32, x.device());
  Tensor at = scan_in_order(Op::Max, (x == out).where(line, 0), axis, 0).movedim(axis, -1);
  Shape shape = at.shape();
  Size batch = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) batch = batch * shape[i];
  const Shape flat{batch, shape.back()};
  Rows rows(at.reshape(flat), shape.back(), 1);
  Tensor shares = g.movedim(axis, -1).reshape(flat).cast(sum_accumulator(g.dtype()));
  return rows.reduce(Op::Add, shares).cast(g.dtype()).reshape(shape).movedim(-1, axis);
}

}  // namespace

Node scan_gradient(Node g, Node out) {
  if (out.arg_count() > 1) return Node();
  std::string device = device_of(out);
  if (device.empty()) device = default_device();
  const std::int64_t axis = out.ints()[1];
  Tensor grad = make_tensor(g, device), x = make_tensor(out.arg(0), device), y = make_tensor(out, device);
  switch (reduce_op(out)) {
    case Op::Add: return node_of(sums_from_end(grad, axis));
    case Op::Mul: return node_of(product_gradient(grad, x, y, axis));
    case Op::Max:
    case Op::Min: return node_of(extreme_gradient(grad, x, y, axis));
    default: return Node();
  }
}

}  // namespace lathe
