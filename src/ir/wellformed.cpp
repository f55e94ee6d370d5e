#include "ir/wellformed.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

namespace lathe {
namespace {

// What the attribute column of structure_ops.def says, in a form a program can check. Ops without a row take
// none.
struct AttrRow {
  Op op;
  enum Form : std::uint8_t {
    Number,
    Integer,
    OpName,
    Ints,
    OpThenInts,
    Text,
    TextInts,
    MaybeText,
    MaybeInts
  } form;
  std::size_t least, most;  // how many ints
  const char* expected;
};
constexpr std::size_t kMany = std::numeric_limits<std::size_t>::max();
// clang-format off
constexpr AttrRow kAttrRows[] = {
    {Op::Const,   AttrRow::Number,     0, 0,     "a number"},
    {Op::Var,     AttrRow::TextInts,   2, 2,     "\"name\" [min, max]"},
    {Op::Buffer,  AttrRow::TextInts,   2, 2,     "\"device\" [id, size]"},
    {Op::Param,   AttrRow::Ints,       2, 2,     "[slot, size]"},
    {Op::Define,  AttrRow::Ints,       3, 6,     "[id, size, space] or [id, size, space, swizzled, slots] with 1 for bulk copies, 2 for those of warps that do nothing else"},
    {Op::Special, AttrRow::TextInts,   1, 1,     "\"name\" [extent]"},
    {Op::Permute, AttrRow::Ints,       0, kMany, "[order...]"},
    {Op::Flip,    AttrRow::Ints,       0, kMany, "[axes...]"},
    {Op::Skew,    AttrRow::Ints,       4, 4,     "[n axis, k axis, stride, dilation]"},
    {Op::Unskew,  AttrRow::Ints,       4, 4,     "[n axis, k axis, stride, dilation]"},
    {Op::Reduce,  AttrRow::OpThenInts, 1, kMany, "an op, or [op, axes...]"},
    {Op::Take,    AttrRow::Integer,    0, 0,     "the number of shared axes"},
    {Op::RaggedReduce, AttrRow::OpName, 0, 0,    "an op"},
    {Op::Scatter, AttrRow::OpName,     0, 0,     "an op"},
    {Op::Scan,    AttrRow::Ints,       2, 2,     "[op, axis]"},
    {Op::Fold,    AttrRow::Ints,       3, 3,     "[id, n, has combine]"},
    {Op::Carry,   AttrRow::Ints,       3, 3,     "[fold id, component, side]"},
    {Op::Get,     AttrRow::Integer,    0, 0,     "a component number"},
    {Op::Custom,  AttrRow::TextInts,   0, kMany, "\"name\" [...]"},
    {Op::Contiguous, AttrRow::MaybeText, 0, 0,   "\"[options]\", or none"},
    {Op::Copy,    AttrRow::Text,       0, 0,     "\"device\""},
    {Op::Launch,  AttrRow::Text,       0, 0,     "\"name, options and kernel\""},
    {Op::Check,   AttrRow::Text,       0, 0,     "\"op\""},
    {Op::Range,   AttrRow::Ints,       2, 2,     "[id, kind]"},
    {Op::Kernel,  AttrRow::TextInts,   0, kMany, "\"name\""},
    {Op::Lane,    AttrRow::Integer,    0, 0,     "a lane number"},
    {Op::HReduce, AttrRow::OpName,     0, 0,     "an op"},
    {Op::Prefetch, AttrRow::Integer,   0, 0,     "the number of a cache"},
    {Op::Load,    AttrRow::MaybeInts,  1, 3,     "[past], [past, rows, pitch], or none"},
    {Op::Store,   AttrRow::MaybeInts,  1, 3,     "[past], [past, rows, pitch], or none"},
    {Op::If,      AttrRow::MaybeInts,  1, 1,     "[number], or none"},
    {Op::Table,   AttrRow::Ints,       1, kMany, "[numbers...]"},
    {Op::Dot,     AttrRow::Text,       0, 4,     "\"kind\", \"kind\" [m, n, k] or \"kind\" [m, n, k, threads]"},
    {Op::CopyAsync, AttrRow::Integer,  0, 0,     "how many elements"},
    {Op::CommitCopies, AttrRow::Integer, 0, 0,   "a number"},
    {Op::WaitCopies, AttrRow::Ints,    2, 2,     "[batches, number]"},
    {Op::ProxyFence, AttrRow::Integer, 0, 0,     "a number"},
    {Op::WaitProducts, AttrRow::Integer, 0, 0,   "how many products are left"},
    {Op::Matrices, AttrRow::Ints,      2, 2,     "[count, transposed]"},
    {Op::BeginArrivals, AttrRow::Integer, 0, 0,  "how many arrivals"},
    {Op::ArriveBytes, AttrRow::Integer, 0, 0,    "how many bytes"},
    {Op::BulkCopy, AttrRow::Ints,      5, 5,     "[columns, rows, all columns, all rows, pitch]"},
    {Op::PanelDot, AttrRow::Text,      8, 8,     "\"kind\" [m, n, k, threads, order of x, slab of x, order of y, slab of y]"},
};
// clang-format on

// Where each op's row stands, since every node of every kernel is looked up; -1 for none.
constexpr auto kRowOf = [] {
  std::array<std::int8_t, kOps> at{};
  at.fill(-1);
  for (std::size_t i = 0; i < std::size(kAttrRows); ++i)
    at[static_cast<std::size_t>(kAttrRows[i].op)] = static_cast<std::int8_t>(i);
  return at;
}();

constexpr std::int64_t kRangeKindCount = 12, kSpaceCount = 5, kMaxComponents = 1 << 16, kMaxSlots = 1 << 20;

// A fragment is a vector of at most 65,535 lanes, so no side is longer than this.
bool is_no_fragment_side(std::int64_t v) { return v < 1 || v > 255; }

bool is_op(std::int64_t v) {
  return v >= 0 && v < kScalarOps && info(static_cast<Op>(v)).unit != UnitKind::None;
}

std::string attr_fault(Op op, DType dtype, const Attr& attr) {
  const int at = kRowOf[static_cast<std::size_t>(op)];
  if (at < 0) return attr.kind == Attr::Kind::None ? "" : fmt::format("{} takes no attribute", info(op).name);
  const AttrRow& row = kAttrRows[at];
  auto refuse = [&] { return fmt::format("{} needs the attribute {}", info(op).name, row.expected); };
  switch (row.form) {
    case AttrRow::Number: {
      Attr::Kind want = dtype.is_float() ? Attr::Kind::Float : Attr::Kind::Int;
      return attr.kind == want ? "" : refuse();
    }
    case AttrRow::Integer: return attr.kind == Attr::Kind::Int && attr.i >= 0 ? "" : refuse();
    case AttrRow::OpName: return attr.kind == Attr::Kind::Int && is_op(attr.i) ? "" : refuse();
    case AttrRow::OpThenInts:
      if (attr.kind == Attr::Kind::Int) return is_op(attr.i) ? "" : refuse();
      [[fallthrough]];
    default: break;
  }
  if (row.form >= AttrRow::MaybeText && attr.kind == Attr::Kind::None) return "";
  if (attr.kind != Attr::Kind::Data) return refuse();
  const AttrData& d = *attr.data;
  if (d.ints.size() < row.least || d.ints.size() > row.most) return refuse();
  const bool text =
      row.form == AttrRow::Text || row.form == AttrRow::TextInts || row.form == AttrRow::MaybeText;
  if (d.text.empty() == text) return refuse();
  if ((op == Op::Reduce || op == Op::Scan) && !is_op(d.ints[0])) return refuse();
  if (op == Op::Dot && !d.ints.empty() &&
      (d.ints.size() < 3 || std::any_of(d.ints.begin(), d.ints.end(), is_no_fragment_side)))
    return refuse();
  if (op == Op::Range && (d.ints[1] < 0 || d.ints[1] >= kRangeKindCount)) return refuse();
  if (op == Op::Define && (d.ints[2] < 0 || d.ints[2] >= kSpaceCount)) return refuse();
  if (op == Op::Define && d.ints.size() > 3 &&
      (d.ints.size() < 5 || d.ints[3] < 0 || d.ints[3] > 1 || d.ints[4] < 1 ||
       (d.ints.size() > 5 && d.ints[5] != 1 && d.ints[5] != 2)))
    return refuse();
  if (op == Op::BulkCopy && std::any_of(d.ints.begin(), d.ints.end(), [](std::int64_t v) { return v < 1; }))
    return refuse();
  if ((op == Op::Load || op == Op::Store) &&
      (d.ints[0] < -1 || d.ints.size() == 2 || (d.ints.size() == 3 && d.ints[1] < 1)))
    return refuse();
  if (op == Op::PanelDot &&
      (d.ints[0] < 1 || d.ints[1] < 1 || d.ints[2] < 1 || d.ints[3] < 1 || d.ints[0] * d.ints[1] > 65535))
    return refuse();
  if (op == Op::Fold && (d.ints[1] < 1 || d.ints[1] > kMaxComponents || d.ints[2] < 0 || d.ints[2] > 1))
    return refuse();
  if (op == Op::Carry && (d.ints[1] < 0 || d.ints[1] >= kMaxComponents)) return refuse();
  if ((op == Op::Param || op == Op::Define || op == Op::Buffer) && d.ints[1] < 0) return refuse();
  if (op == Op::Param && (d.ints[0] < 0 || d.ints[0] > kMaxSlots)) return refuse();
  return "";
}

std::string axes_fault(Op op, std::span<const std::int64_t> axes, std::size_t rank) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || static_cast<std::size_t>(axes[i]) >= rank)
      return fmt::format("{} names axis {} of a value of rank {}", info(op).name, axes[i], rank);
    if (std::find(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(i), axes[i]) !=
        axes.begin() + static_cast<std::ptrdiff_t>(i))
      return fmt::format("{} names axis {} twice", info(op).name, axes[i]);
  }
  return "";
}

std::string shape_rules(Op op, std::span<const Node> args, const Attr& attr) {
  std::size_t rank = args.empty() ? 0 : args[0].rank();
  switch (op) {
    case Op::Permute:
      if (attr.data->ints.size() != rank)
        return fmt::format("Permute orders {} axes of a value of rank {}", attr.data->ints.size(), rank);
      return axes_fault(op, attr.data->ints, rank);
    case Op::Flip: return axes_fault(op, attr.data->ints, rank);
    case Op::Skew:
    case Op::Unskew: return axes_fault(op, std::span(attr.data->ints).first(2), rank);
    case Op::Reduce:
      return attr.kind == Attr::Kind::Data ? axes_fault(op, std::span(attr.data->ints).subspan(1), rank) : "";
    case Op::Take:
      if (static_cast<std::size_t>(attr.i) < rank && static_cast<std::size_t>(attr.i) <= args[1].rank())
        return "";
      return fmt::format("Take shares {} axes of values of rank {} and {}", attr.i, rank, args[1].rank());
    case Op::RaggedReduce:
      for (std::size_t i = 1; i < args.size(); ++i)
        if (args[i].rank() != 1)
          return fmt::format("RaggedReduce takes lists, not a value of rank {}", args[i].rank());
      return rank > 0 ? "" : "RaggedReduce of a value of rank 0";
    case Op::Scatter:
      if (args[1].rank() > 0 && args[1].rank() <= rank) return "";
      return fmt::format("Scatter of a value of rank {} by an index of rank {}", rank, args[1].rank());
    case Op::Scan:
      if (args.size() != 1 && args.size() != 3)
        return fmt::format("Scan takes 1 or 3 operands, not {}", args.size());
      return axes_fault(op, std::span(attr.data->ints).subspan(1), rank);
    case Op::Pad:
    case Op::Shrink:
      if (args.size() == 1 + 2 * rank) return "";
      return fmt::format("{} of a value of rank {} takes {} sizes, not {}", info(op).name, rank, 2 * rank,
                         args.size() - 1);
    case Op::Fold: {
      auto parts = static_cast<std::size_t>(attr.data->ints[1]) * (attr.data->ints[2] != 0 ? 3 : 2);
      if (args.size() >= parts) return "";
      return fmt::format("Fold of {} components takes at least {} operands, not {}", attr.data->ints[1],
                         parts, args.size());
    }
    default: return "";
  }
}

}  // namespace

std::string node_fault(Op op, DType dtype, std::span<const Node> args, const Attr& attr) {
  int want = info(op).args;
  auto have = static_cast<int>(args.size());
  bool any_number = op == Op::Dims || op == Op::Sink;
  if (!any_number && (want >= 0 ? have != want : have < -want))
    return fmt::format("{} takes {}{} operand{}, not {}", info(op).name, want < 0 ? "at least " : "",
                       std::abs(want), std::abs(want) == 1 ? "" : "s", have);
  if (std::string fault = attr_fault(op, dtype, attr); !fault.empty()) return fault;
  return shape_rules(op, args, attr);
}

}  // namespace lathe
