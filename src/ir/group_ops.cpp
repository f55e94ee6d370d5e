#include "ir/group_ops.h"

#include "base/error.h"
#include "base/small_vector.h"
#include "ir/build.h"

namespace lathe {

Node panel_dot(const DotKind& kind, const PanelShape& shape, Node x, Node x_index, Node y, Node y_index,
               Node sum) {
  AttrData d{std::string(kind.name),
             {shape.m, shape.n, shape.k, shape.threads, static_cast<std::int64_t>(shape.x.rows), shape.x.slab,
              static_cast<std::int64_t>(shape.y.rows), shape.y.slab}};
  return intern(Op::PanelDot, sum.dtype(), {x, x_index, y, y_index, sum}, Attr::of(d));
}

PanelShape panel_shape(Node dot) {
  const auto& v = dot.ints();
  PanelShape shape{
      static_cast<int>(v[0]), static_cast<int>(v[1]), static_cast<int>(v[2]), static_cast<int>(v[3]), {}, {}};
  shape.x = {static_cast<PanelRows>(v[4]), v[5]};
  shape.y = {static_cast<PanelRows>(v[6]), v[7]};
  return shape;
}

bool holds_x(Node dot) {
  Node base = base_memory(dot.arg(0));
  return !base.is(Op::Define) && !base.is(Op::Param);
}
HeldWord held_word(int thread, int lane) {
  const int warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
  return {warp * 16 + g + lane % 2 * 8, lane / 4 * 8 + lane / 2 % 2 * 4 + t};
}

Node exchange(Node x, std::int64_t bits) { return intern(Op::Exchange, x.dtype(), {x}, Attr::of(bits)); }

Node matrices(Node memory, Node index, int count, bool transposed) {
  AttrData d{"", {count, transposed ? 1 : 0}};
  return intern(Op::Matrices, dtypes::UInt32.vec(static_cast<std::uint16_t>(count)), {memory, index},
                Attr::of(d));
}

Node copy_async(Node memory, Node index, Node source, Node source_index, Node inside, Node gate,
                std::int64_t elements) {
  SmallVector<Node, 8> args{memory, index, source, source_index, inside ? inside : bool_const(true)};
  if (gate) args.push_back(gate);
  return intern(Op::CopyAsync, dtypes::Void, args, Attr::of(elements));
}

Node commit_copies(std::int64_t number) {
  return intern(Op::CommitCopies, dtypes::Void, {}, Attr::of(number));
}
Node wait_copies(std::int64_t batches, std::int64_t number) {
  AttrData d{"", {batches, number}};
  return intern(Op::WaitCopies, dtypes::Void, {}, Attr::of(d));
}
Node proxy_fence(std::int64_t number) { return intern(Op::ProxyFence, dtypes::Void, {}, Attr::of(number)); }
Node wait_products(Node x, std::int64_t left) {
  return intern(Op::WaitProducts, x.dtype(), {x}, Attr::of(left));
}
Node bulk_copy(const BulkBox& box, Node memory, Node index, Node source, Node column, Node row, Node barriers,
               Node barrier) {
  AttrData d{"", {box.columns, box.rows, box.all_columns, box.all_rows, box.pitch}};
  return intern(Op::BulkCopy, dtypes::Void, {memory, index, source, column, row, barriers, barrier},
                Attr::of(d));
}
BulkBox bulk_box(Node copy) {
  const auto& v = copy.ints();
  return {v[0], v[1], v[2], v[3], v[4]};
}
Node begin_arrivals(Node barriers, Node barrier, std::int64_t arrivals) {
  return intern(Op::BeginArrivals, dtypes::Void, {barriers, barrier}, Attr::of(arrivals));
}
Node arrive_bytes(Node barriers, Node barrier, std::int64_t bytes) {
  return intern(Op::ArriveBytes, dtypes::Void, {barriers, barrier}, Attr::of(bytes));
}
Node await_arrivals(Node barriers, Node barrier, Node parity) {
  return intern(Op::AwaitArrivals, dtypes::Void, {barriers, barrier, parity});
}
Filling filling_of(Node define) {
  const auto& ints = define.ints();
  return ints.size() > 5 ? static_cast<Filling>(ints[5]) : Filling::Threads;
}
Node with_filling(Node define, Filling filling) {
  AttrData d{"", {}};
  d.ints.assign(define.ints().begin(), define.ints().end());
  check_internal(d.ints.size() > 5, "group_ops", "a panel of one slot has no filling");
  d.ints[5] = static_cast<std::int64_t>(filling);
  return intern(Op::Define, define.dtype(), {}, Attr::of(d));
}

std::optional<Role> role_of(Node condition, const Program& program) {
  if (!condition.is(Op::Less)) return std::nullopt;
  const bool produces = condition.arg(1).is(Op::Special);
  Node index = condition.arg(produces ? 1 : 0), limit = condition.arg(produces ? 0 : 1);
  if (!index.is(Op::Special) || !limit.is_const() || !index.text().starts_with("l")) return std::nullopt;
  const std::int64_t first = limit.int_attr() + (produces ? 1 : 0);
  const auto last = static_cast<std::size_t>(index.text()[1] - '0');
  std::int64_t below = 1;
  for (std::size_t i = 0; i < program.locals.size(); ++i) {
    if (!program.locals[i]) continue;
    if (!program.locals[i]->is_const()) return std::nullopt;
    const std::int64_t extent = program.locals[i]->const_int();
    if (i < last) below *= extent;
    if (i > last && extent > 1) return std::nullopt;
    if (i == last && (extent - first) * below != kProducers) return std::nullopt;
  }
  if (below * first % kProducers != 0) return std::nullopt;
  return Role{produces, below * first};
}

bool is_in_flight(Node value) {
  return value.is(Op::PanelDot) || (value.is(Op::WaitProducts) && value.int_attr() > 0);
}

}  // namespace lathe
