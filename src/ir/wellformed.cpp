#include "ir/wellformed.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

namespace lathe {
namespace {

constexpr std::int64_t kRangeKindCount = 12, kSpaceCount = 5, kMaxComponents = 1 << 16, kMaxSlots = 1 << 20;

// A fragment is a vector of at most 65,535 lanes, so no side is longer than this.
bool is_no_fragment_side(std::int64_t v) { return v < 1 || v > 255; }

bool is_op(std::int64_t v) {
  return v >= 0 && v < kScalarOps && info(static_cast<Op>(v)).unit != UnitKind::None;
}

// ---- the column `limits`: whether the numbers of an attribute that has the right form may be there

namespace limits {

using Numbers = std::span<const std::int64_t>;

bool any(Numbers) { return true; }
bool first_is_op(Numbers v) { return is_op(v[0]); }
bool memory(Numbers v) { return v[1] >= 0; }
bool slot(Numbers v) { return v[0] >= 0 && v[0] <= kMaxSlots && v[1] >= 0; }
bool own_memory(Numbers v) {
  if (v[1] < 0 || v[2] < 0 || v[2] >= kSpaceCount) return false;
  if (v.size() == 3) return true;
  return v.size() > 4 && v[3] >= 0 && v[3] <= 1 && v[4] >= 1 && (v.size() == 5 || v[5] == 1 || v[5] == 2);
}
bool components(Numbers v) { return v[1] >= 1 && v[1] <= kMaxComponents && v[2] >= 0 && v[2] <= 1; }
bool component(Numbers v) { return v[1] >= 0 && v[1] < kMaxComponents; }
bool access(Numbers v) { return v[0] >= -1 && v.size() != 2 && (v.size() < 3 || v[1] >= 1); }
bool range_kind(Numbers v) { return v[1] >= 0 && v[1] < kRangeKindCount; }
bool fragments(Numbers v) {
  return v.empty() || (v.size() >= 3 && std::none_of(v.begin(), v.end(), is_no_fragment_side));
}
bool panel_sides(Numbers v) {
  return std::all_of(v.begin(), v.begin() + 4, [](std::int64_t n) { return n >= 1; }) && v[0] * v[1] <= 65535;
}
bool box(Numbers v) {
  return std::all_of(v.begin(), v.end(), [](std::int64_t n) { return n >= 1; });
}

}  // namespace limits

// Whether an attribute has the form that its op's row says.
bool has_form(const AttrForm& form, DType dtype, const Attr& attr) {
  using enum AttrForm::Kind;
  switch (form.kind) {
    case None: return attr.kind == Attr::Kind::None;
    case Number: return attr.kind == (dtype.is_float() ? Attr::Kind::Float : Attr::Kind::Int);
    case Integer: return attr.kind == Attr::Kind::Int && attr.i >= 0;
    case OpName: return attr.kind == Attr::Kind::Int && is_op(attr.i);
    case OpOrInts:
      if (attr.kind == Attr::Kind::Int) return is_op(attr.i);
      break;
    case MaybeText:
    case MaybeInts:
      if (attr.kind == Attr::Kind::None) return true;
      break;
    default: break;
  }
  if (attr.kind != Attr::Kind::Data) return false;
  const AttrData& d = *attr.data;
  const bool text = form.kind == Text || form.kind == TextInts || form.kind == MaybeText;
  return d.ints.size() >= form.least && d.ints.size() <= form.most && d.text.empty() != text;
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

// ---- the column `operands`: what is wrong between an attribute and the operands, before there is a shape

namespace operands {

using Args = std::span<const Node>;

std::size_t rank_of(Args args) { return args.empty() ? 0 : args[0].rank(); }

std::string any(Op, Args, const Attr&) { return ""; }
std::string all_axes(Op op, Args args, const Attr& attr) {
  const std::size_t named = attr.data->ints.size(), rank = rank_of(args);
  if (named != rank)
    return fmt::format("{} orders {} axes of a value of rank {}", info(op).name, named, rank);
  return axes_fault(op, attr.data->ints, rank);
}
std::string axes(Op op, Args args, const Attr& attr) {
  return axes_fault(op, attr.data->ints, rank_of(args));
}
std::string two_axes(Op op, Args args, const Attr& attr) {
  return axes_fault(op, std::span(attr.data->ints).first(2), rank_of(args));
}
std::string axes_after_op(Op op, Args args, const Attr& attr) {
  if (attr.kind != Attr::Kind::Data) return "";
  return axes_fault(op, std::span(attr.data->ints).subspan(1), rank_of(args));
}
std::string two_sizes(Op op, Args args, const Attr&) {
  const std::size_t rank = rank_of(args);
  if (args.size() == 1 + 2 * rank) return "";
  return fmt::format("{} of a value of rank {} takes {} sizes, not {}", info(op).name, rank, 2 * rank,
                     args.size() - 1);
}
std::string shared_axes(Op op, Args args, const Attr& attr) {
  const std::size_t rank = rank_of(args), shared = static_cast<std::size_t>(attr.i);
  if (shared < rank && shared <= args[1].rank()) return "";
  return fmt::format("{} shares {} axes of values of rank {} and {}", info(op).name, attr.i, rank,
                     args[1].rank());
}
std::string lists(Op op, Args args, const Attr&) {
  for (Node list : args.subspan(1))
    if (list.rank() != 1)
      return fmt::format("{} takes lists, not a value of rank {}", info(op).name, list.rank());
  return rank_of(args) > 0 ? "" : fmt::format("{} of a value of rank 0", info(op).name);
}
std::string scatter_index(Op op, Args args, const Attr&) {
  if (args[1].rank() > 0 && args[1].rank() <= rank_of(args)) return "";
  return fmt::format("{} of a value of rank {} by an index of rank {}", info(op).name, rank_of(args),
                     args[1].rank());
}
std::string scan_operands(Op op, Args args, const Attr& attr) {
  if (args.size() != 1 && args.size() != 3)
    return fmt::format("{} takes 1 or 3 operands, not {}", info(op).name, args.size());
  return axes_after_op(op, args, attr);
}
std::string last_axis(Op op, Args args, const Attr&) {
  return rank_of(args) > 0 ? "" : fmt::format("{} of a value of rank 0", info(op).name);
}
std::string fold_parts(Op op, Args args, const Attr& attr) {
  const std::vector<std::int64_t>& ints = attr.data->ints;
  const auto parts = static_cast<std::size_t>(ints[1]) * (ints[2] != 0 ? 3 : 2);
  if (args.size() >= parts) return "";
  return fmt::format("{} of {} components takes at least {} operands, not {}", info(op).name, ints[1], parts,
                     args.size());
}

}  // namespace operands

struct Columns {
  bool (*limits)(limits::Numbers);
  std::string (*operands)(Op, operands::Args, const Attr&);
};
constexpr Columns kColumns[] = {
#define LATHE_OP(...) {limits::any, operands::any},
#define LATHE_NODE(name, args, form, group, attribute, limit, operand, ...) \
  {limits::limit, operands::operand},
#include "ir/ops.def"
#include "ir/structure_ops.def"
#undef LATHE_OP
#undef LATHE_NODE
};

}  // namespace

std::string node_fault(Op op, DType dtype, std::span<const Node> args, const Attr& attr) {
  const OpInfo& row = info(op);
  const auto have = static_cast<int>(args.size());
  if (row.args != kAny && (row.args >= 0 ? have != row.args : have < -row.args))
    return fmt::format("{} takes {}{} operand{}, not {}", row.name, row.args < 0 ? "at least " : "",
                       std::abs(row.args), std::abs(row.args) == 1 ? "" : "s", have);
  const Columns& columns = kColumns[static_cast<std::size_t>(op)];
  if (row.attribute.kind == AttrForm::Kind::None && attr.kind != Attr::Kind::None)
    return fmt::format("{} takes no attribute", row.name);
  const bool fits = has_form(row.attribute, dtype, attr) &&
                    (attr.kind != Attr::Kind::Data || columns.limits(attr.data->ints));
  return fits ? columns.operands(op, args, attr)
              : fmt::format("{} needs the attribute {}", row.name, row.words);
}

}  // namespace lathe
