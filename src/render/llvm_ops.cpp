#include <cmath>

#include "base/error.h"
#include "base/planted.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/float_range.h"
#include "render/llvm_printer.h"
#include "render/prepare.h"
#include "render/unit_text.h"
#include "target/matrix_units.h"

namespace lathe::render {
namespace {

// Ops that are one instruction, by kind of operand; an empty text: not defined there or not one instruction.
struct InstructionRow {
  Op op;
  std::string_view on_signed, on_unsigned, on_float, on_bool;
};
constexpr InstructionRow kInstructions[] = {
    {Op::Add, "add", "add", "fadd", "or"},
    {Op::Sub, "sub", "sub", "fsub", ""},
    {Op::Mul, "mul", "mul", "fmul", "and"},
    {Op::Div, "", "", "fdiv", ""},
    {Op::And, "and", "and", "", "and"},
    {Op::Or, "or", "or", "", "or"},
    {Op::Xor, "xor", "xor", "", "xor"},
    {Op::Max, "", "", "", "or"},
    {Op::Min, "", "", "", "and"},
    {Op::Less, "icmp slt", "icmp ult", "fcmp olt", "icmp ult"},
    {Op::Eq, "icmp eq", "icmp eq", "fcmp oeq", "icmp eq"},
    {Op::Ne, "icmp ne", "icmp ne", "fcmp une", "icmp ne"},
};

// Ops that are one intrinsic on floats.
struct IntrinsicRow {
  Op op;
  std::string_view name;
};
constexpr IntrinsicRow kIntrinsics[] = {
    {Op::Fma, "llvm.fma"},   {Op::Sqrt, "llvm.sqrt"}, {Op::Trunc, "llvm.trunc"}, {Op::Floor, "llvm.floor"},
    {Op::Exp2, "llvm.exp2"}, {Op::Log2, "llvm.log2"}, {Op::Sin, "llvm.sin"},     {Op::Cos, "llvm.cos"},
};

std::string_view instruction_of(Op op, DType dtype) {
  for (const InstructionRow& row : kInstructions)
    if (row.op == op)
      return dtype.is_bool()       ? row.on_bool
             : dtype.is_float()    ? row.on_float
             : dtype.is_unsigned() ? row.on_unsigned
                                   : row.on_signed;
  return "";
}

}  // namespace

// `constant` is the text of a scalar.
std::string LlvmPrinter::all_lanes(const std::string& constant, DType dtype) const {
  return dtype.lanes == 1 ? constant : fmt::format("splat ({} {})", llvm_type(dtype.element()), constant);
}

// rint(x).
std::string LlvmPrinter::whole_part(Node x) {
  const std::string type = llvm_type(x.dtype());
  return call(fmt::format("llvm.roundeven.{}", llvm_suffix(x.dtype())), type, {type}, {value(x)});
}

// value * 2^rint(n).
std::string LlvmPrinter::scale(Node node) {
  const int lanes = node.dtype().lanes;
  const std::string type = llvm_type(node.dtype()), n = whole_part(node.arg(1));
  std::vector<std::string> types{type, type, type, lanes == 16 ? "i16" : "i8"},
      operands{value(node.arg(0)), n, "zeroinitializer", "-1"};
  if (lanes == 16) {
    types.push_back("i32");
    operands.push_back("4");  // rounds as everything else does
  }
  return call(fmt::format("llvm.x86.avx512.mask.scalef.ps.{}", lanes * 32), type, types, operands);
}

// Lanes of a vector of constants picked by an index in each lane, or one of an array.
std::string LlvmPrinter::table_value(Node node) {
  const auto& numbers = node.ints();
  const DType dtype = node.dtype(), element = dtype.element();
  const std::string type = llvm_type(dtype), one = llvm_type(element);
  std::string list;
  for (const std::int64_t number : numbers)
    list += fmt::format("{}{} {}{}", list.empty() ? "" : ", ", one, number, element.is_float() ? ".0" : "");
  if (dtype == dtypes::Float32.vec(16) && numbers.size() == 16)
    return call("llvm.x86.avx512.permvar.sf.512", type, {type, llvm_type(node.arg(0).dtype())},
                {"<" + list + ">", value(node.arg(0))});
  check_internal(dtype.lanes == 1, "llvm_text", "Table of " + dtype.str());
  const std::string text =
      fmt::format(" = private constant [{} x {}] [{}], align 64\n\n", numbers.size(), one, list);
  const auto [found, is_new] = tables_.try_emplace(text, fmt::format("@table{}", tables_.size()));
  const std::string& array = found->second;
  if (is_new) globals_ += array + text;
  std::string at = wide(node.arg(0));
  const auto size = static_cast<std::int64_t>(numbers.size());
  if (node.arg(0).lo() < 0 || node.arg(0).hi() >= size) {
    const std::string rest = emit("srem i64 {}, {}", at, size);
    at = emit("select i1 {}, i64 {}, i64 {}", emit("icmp slt i64 {}, 0", rest),
              emit("add i64 {}, {}", rest, size), rest);
  }
  const std::string place = emit("getelementptr {}, ptr {}, i64 {}", one, array, at);
  return emit("load {}, ptr {}, align {}", one, place, element.bytes());
}

std::string LlvmPrinter::machine_op(Node node) {
  Node x = node.arg(0);
  switch (node.op()) {
    case Op::Narrow: {
      const std::string narrow = fmt::format("<{} x bfloat>", node.dtype().lanes);
      return emit("bitcast {} {} to {}", narrow,
                  emit("fptrunc {} {} to {}", llvm_type(x.dtype()), value(x), narrow),
                  llvm_type(node.dtype()));
    }
    case Op::Table: return table_value(node);
    case Op::Fraction: return emit("fsub {} {}, {}", llvm_type(x.dtype()), value(x), whole_part(x));
    default: return scale(node);
  }
}

std::string LlvmPrinter::scalar_op(Node node) {
  Op op = node.op();
  DType dtype = node.arg(0).dtype();
  std::string type = llvm_type(dtype);
  if (std::string_view text = instruction_of(op, dtype); !text.empty()) {
    if (info(op).result == ResultKind::Boolean && dtype == dtypes::Int32 && has_wide(node.arg(0)) &&
        has_wide(node.arg(1)))
      return emit("{} i64 {}, {}", text, wide(node.arg(0)), wide(node.arg(1)));
    if (op == Op::Div) return quotient(node);
    bool flag = never_wraps(node) && (op == Op::Add || op == Op::Sub || op == Op::Mul);
    if (planted(Fault::LlvmSub) && op == Op::Sub && dtype.is_float())
      return emit("{} {} {}, {}", text, type, value(node.arg(1)), value(node.arg(0)));
    if (planted(Fault::LlvmUnsigned) && text == "icmp ult") text = "icmp slt";
    return emit("{}{} {} {}, {}", text, flag ? " nsw" : "", type, value(node.arg(0)), value(node.arg(1)));
  }
  if (dtype.is_float())
    for (const IntrinsicRow& row : kIntrinsics)
      if (row.op == (planted(Fault::LlvmFloor) && op == Op::Floor ? Op::Trunc : op)) {
        std::vector<std::string> operands;
        for (Node arg : node.args()) operands.push_back(value(arg));
        return call(fmt::format("{}.{}", row.name, llvm_suffix(dtype)), type,
                    std::vector<std::string>(operands.size(), type), operands);
      }
  switch (op) {
    case Op::Max:
    case Op::Min: return extremum(node);
    case Op::Where:
      return emit("select {}, {}, {}", typed(node.arg(0)), typed(node.arg(1)), typed(node.arg(2)));
    case Op::Neg:
      return dtype.is_float() ? emit("fneg {} {}", type, value(node.arg(0)))
                              : emit("sub {} zeroinitializer, {}", type, value(node.arg(0)));
    case Op::Not:
      return emit("xor {} {}, {}", type, value(node.arg(0)),
                  all_lanes(dtype.is_bool() ? "true" : "-1", dtype));
    case Op::Recip: return emit("fdiv {} {}, {}", type, all_lanes("1.0", dtype), value(node.arg(0)));
    case Op::Shl:
    case Op::Shr: return shift(node);
    case Op::TruncDiv:
    case Op::TruncMod:
    case Op::FloorDiv:
    case Op::FloorMod: return divide(node);
    default: throw InternalError("llvm_text", fmt::format("{} on {}", info(op).name, dtype.name()));
  }
}

// (x is NaN or x > y) ? x : y. Where x is a number, "greater" alone says the same: one instruction.
std::string LlvmPrinter::extremum(Node node) {
  Node x = node.arg(0), y = node.arg(1);
  if (compares_backwards(node)) std::swap(x, y);
  DType dtype = x.dtype();
  if (!dtype.is_float() || !is_number(x)) return combine(node.op(), dtype, value(x), value(y));
  const bool greater = node.is(Op::Max) != planted(Fault::LlvmMax);
  std::string keep = emit("fcmp {} {}, {}", greater ? "ogt" : "olt", typed(x), value(y));
  return emit("select {} {}, {}, {}", llvm_type(dtypes::Bool.vec(dtype.lanes)), keep, typed(x), typed(y));
}

// A reduction's op on two values of one dtype.
std::string LlvmPrinter::combine(Op op, DType dtype, const std::string& x, const std::string& y) {
  std::string type = llvm_type(dtype);
  if (std::string_view text = instruction_of(op, dtype); !text.empty())
    return emit("{} {} {}, {}", text, type, x, y);
  const bool is_max = (op == Op::Max) != (planted(Fault::LlvmMax) && dtype.is_float());
  check_internal(op == Op::Max || op == Op::Min, "llvm_text", "this op is not a reduction");
  if (!dtype.is_float()) {
    std::string_view sign = dtype.is_unsigned() ? "u" : "s";
    return call(fmt::format("llvm.{}{}.{}", sign, is_max ? "max" : "min", llvm_suffix(dtype)), type,
                {type, type}, {x, y});
  }
  std::string flags = llvm_type(dtypes::Bool.vec(dtype.lanes));
  // "x > y ? x : y" is one instruction, which gives y where either is NaN.
  std::string wins = emit("fcmp {} {} {}, {}", is_max ? "ogt" : "olt", type, x, y);
  std::string winner = emit("select {} {}, {} {}, {} {}", flags, wins, type, x, type, y);
  std::string nan = emit("fcmp uno {} {}, {}", type, x, x);
  return emit("select {} {}, {} {}, {} {}", flags, nan, type, x, type, winner);
}

// LLVM takes a lane in which it knows both operands to be 0 (the rest of a masked load, a padded constant)
// for 0 in the quotient as well and leaves out a mask that would have dropped the NaN: it must not see such a
// divisor.
std::string LlvmPrinter::quotient(Node node) {
  Node by = node.arg(1);
  const DType dtype = by.dtype();
  const std::string type = llvm_type(dtype);
  std::string divisor = value(by);
  if (dtype.lanes > 1 && !by.is(Op::Splat) && !constant_of(by))
    divisor = call(fmt::format("llvm.arithmetic.fence.{}", llvm_suffix(dtype)), type, {type}, {divisor});
  return emit("fdiv {} {}, {}", type, value(node.arg(0)), divisor);
}

// x / 0 and x % 0 are 0, and the smallest value / -1 wraps; none may trap. The floor forms correct the
// truncated ones.
std::string LlvmPrinter::divide(Node node) {
  Op op = node.op();
  DType dtype = node.dtype();
  bool is_unsigned = dtype.is_unsigned(), quotient = op == Op::TruncDiv || op == Op::FloorDiv;
  bool floor = !is_unsigned && (op == Op::FloorDiv || op == Op::FloorMod);
  std::string type = llvm_type(dtype), flags = llvm_type(dtypes::Bool.vec(dtype.lanes));
  std::string x = value(node.arg(0)), y = value(node.arg(1)), zero = "zeroinitializer";
  const char* prefix = is_unsigned ? "u" : "s";
  bool plain = divides_plainly(node.arg(1));
  std::string divisor = y, is_zero, is_minus;
  if (!plain) {
    is_zero = emit("icmp eq {} {}, {}", type, y, zero);
    std::string unsafe = is_zero;
    if (!is_unsigned) {
      is_minus = emit("icmp eq {} {}, {}", type, y, all_lanes("-1", dtype));
      unsafe = emit("or {} {}, {}", flags, is_zero, is_minus);
    }
    divisor = emit("select {} {}, {} {}, {} {}", flags, unsafe, type, all_lanes("1", dtype), type, y);
  }
  const auto guarded = [&](std::string result, bool is_quotient) {
    if (plain) return result;
    if (!is_unsigned) {
      std::string other = is_quotient ? emit("sub {} {}, {}", type, zero, x) : zero;
      result = emit("select {} {}, {} {}, {} {}", flags, is_minus, type, other, type, result);
    }
    return emit("select {} {}, {} {}, {} {}", flags, is_zero, type, zero, type, result);
  };
  std::string q, r;
  if (quotient) q = guarded(emit("{}div {} {}, {}", prefix, type, x, divisor), true);
  if (!quotient || floor) r = guarded(emit("{}rem {} {}, {}", prefix, type, x, divisor), false);
  if (!floor) return quotient ? q : r;
  std::string inexact = emit("icmp ne {} {}, {}", type, r, zero);
  std::string signs = emit("xor {} {}, {}", type, quotient ? x : r, y);
  std::string differ = emit("icmp slt {} {}, {}", type, signs, zero);
  std::string correct = emit("and {} {}, {}", flags, inexact, differ);
  std::string corrected =
      quotient ? emit("add {} {}, {}", type, q, all_lanes("-1", dtype)) : emit("add {} {}, {}", type, r, y);
  return emit("select {} {}, {} {}, {} {}", flags, correct, type, corrected, type, quotient ? q : r);
}

// Amounts are unsigned. Shifting all bits out gives 0, or the sign for a signed right shift.
std::string LlvmPrinter::shift(Node node) {
  DType dtype = node.dtype();
  bool left = node.is(Op::Shl), is_unsigned = dtype.is_unsigned();
  std::string type = llvm_type(dtype), x = value(node.arg(0)), n = value(node.arg(1));
  const char* text = left ? "shl" : is_unsigned ? "lshr" : "ashr";
  if (shifts_plainly(node.arg(1))) return emit("{} {} {}, {}", text, type, x, n);
  std::string flags = llvm_type(dtypes::Bool.vec(dtype.lanes));
  std::string out = emit("icmp uge {} {}, {}", type, n, all_lanes(fmt::format("{}", dtype.bits()), dtype));
  std::string last = all_lanes(left || is_unsigned ? "0" : fmt::format("{}", dtype.bits() - 1), dtype);
  std::string amount = emit("select {} {}, {} {}, {} {}", flags, out, type, last, type, n);
  std::string result = emit("{} {} {}, {}", text, type, x, amount);
  if (!left && !is_unsigned) return result;
  return emit("select {} {}, {} zeroinitializer, {} {}", flags, out, type, type, result);
}

// Saturating, NaN gives 0; the widths are those of ir/value.h. Values that fit take one instruction.
std::string LlvmPrinter::float_to_int(DType to, Node number) {
  const DType from = number.dtype();
  const std::string type = llvm_type(from), x = value(number);
  const FloatRange range = float_range(number);
  const auto saturate = [&](const char* sign, DType wide) {
    if (*sign == 's' && range.fits(wide.element()))
      return emit("fptosi {} {} to {}", type, x, llvm_type(wide));
    return call(fmt::format("llvm.fpto{}i.sat.{}.{}", sign, llvm_suffix(wide), llvm_suffix(from)),
                llvm_type(wide), {type}, {x});
  };
  DType i32 = dtypes::Int32.vec(from.lanes), i64 = dtypes::Int64.vec(from.lanes);
  if (to.scalar == Scalar::UInt64) {
    std::string flags = llvm_type(dtypes::Bool.vec(from.lanes));
    std::string negative = emit("fcmp olt {} {}, {}", type, x, all_lanes("0.0", from));
    std::string low = saturate("s", i64), high = saturate("u", i64);
    return emit("select {} {}, {} {}, {} {}", flags, negative, llvm_type(i64), low, llvm_type(i64), high);
  }
  bool wide = to.bits() == 64 || to.scalar == Scalar::UInt32;
  std::string result = saturate("s", wide ? i64 : i32);
  if (to.bits() == (wide ? 64 : 32)) return result;
  return emit("trunc {} {} to {}", llvm_type(wide ? i64 : i32), result, llvm_type(to));
}

std::string LlvmPrinter::cast_value(Node node) {
  Node arg = node.arg(0);
  DType to = node.dtype(), from = arg.dtype();
  std::string x = value(arg), source = llvm_type(from), result = llvm_type(to);
  if (node.is(Op::Bitcast)) {
    if (to.is_bool()) return emit("icmp ne {} {}, zeroinitializer", source, x);
    if (from.is_bool()) return emit("zext {} {} to {}", source, x, result);
    return source == result ? x : emit("bitcast {} {} to {}", source, x, result);
  }
  if (to.is_bool())
    return from.is_float()  ? emit("fcmp une {} {}, zeroinitializer", source, x)
           : from.is_bool() ? x
                            : emit("icmp ne {} {}, zeroinitializer", source, x);
  if (from.is_float() && to.is_float()) {
    if (source == result) return x;
    return emit("{} {} {} to {}", to.bits() > from.bits() ? "fpext" : "fptrunc", source, x, result);
  }
  if (from.is_float()) return float_to_int(to, arg);
  bool zero_extend = from.is_unsigned() || (from.is_bool() && !planted(Fault::LlvmBoolToFloat));
  if (to.is_float()) return emit("{} {} {} to {}", zero_extend ? "uitofp" : "sitofp", source, x, result);
  if (source == result) return x;
  if (from.is_bool() || to.bits() > from.bits())
    return emit("{} {} {} to {}", zero_extend ? "zext" : "sext", source, x, result);
  return emit("trunc {} {} to {}", source, x, result);
}

// Lanes of one vector. Every second, fourth and so on in steps: half of a long vector is one shuffle for each
// part of it that a register holds, and other halves share the first steps.
std::string LlvmPrinter::picked_lanes(Node node, Node from) {
  std::vector<std::int64_t> lanes;
  for (Node a : node.args()) lanes.push_back(a.int_attr());
  const std::int64_t first = lanes[0], step = lanes.size() > 1 ? lanes[1] - first : 1;
  std::int64_t left = from.dtype().lanes, apart = step;
  bool even = step > 1 && (step & (step - 1)) == 0 && first < step &&
              static_cast<std::int64_t>(lanes.size()) * step == left;
  for (std::size_t i = 0; i < lanes.size(); ++i)
    even &= lanes[i] == first + static_cast<std::int64_t>(i) * step;
  std::string x = value(from);
  const auto shuffle = [&](std::int64_t have, std::span<const std::int64_t> picks) {
    std::string list, type = llvm_type(from.dtype().element().vec(static_cast<std::uint16_t>(have)));
    for (const std::int64_t pick : picks) list += fmt::format("{}i32 {}", list.empty() ? "" : ", ", pick);
    x = emit("shufflevector {0} {1}, {0} poison, <{2} x i32> <{3}>", type, x, picks.size(), list);
  };
  if (!even) {
    shuffle(left, lanes);
    return x;
  }
  for (std::int64_t begin = first; apart > 1; apart /= 2, begin /= 2, left /= 2) {
    std::vector<std::int64_t> half;
    for (std::int64_t i = begin % 2; i < left; i += 2) half.push_back(i);
    shuffle(left, half);
  }
  return x;
}

// Lanes of two to four vectors: two at a time, what other vectors fill left open.
std::string LlvmPrinter::woven_lanes(Node node, std::span<const Node> from) {
  const std::size_t lanes = node.arg_count();
  const std::string type = llvm_type(node.dtype());
  const auto two = [&](const std::string& a, const std::string& b, auto pick) {
    std::string picks;
    for (std::size_t i = 0; i < lanes; ++i) {
      const std::int64_t at = pick(node.arg(i), static_cast<std::int64_t>(i));
      picks += fmt::format("{}i32 {}", i == 0 ? "" : ", ", at < 0 ? "poison" : fmt::format("{}", at));
    }
    return emit("shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>", type, a, b, lanes, picks);
  };
  const auto all = static_cast<std::int64_t>(lanes);
  const auto pair = [&](std::size_t first) {
    const bool both = first + 1 < from.size();
    return two(value(from[first]), both ? value(from[first + 1]) : "poison", [&](Node a, std::int64_t) {
      return a.arg(0) == from[first]               ? a.int_attr()
             : both && a.arg(0) == from[first + 1] ? all + a.int_attr()
                                                   : std::int64_t{-1};
    });
  };
  std::string low = pair(0);
  if (from.size() <= 2) return low;
  std::string high = pair(2);
  return two(low, high, [&](Node a, std::int64_t i) {
    return a.arg(0) == from[0] || a.arg(0) == from[1] ? i : all + i;
  });
}

// Whole vectors one after the other: two at a time.
std::string LlvmPrinter::joined_vectors(std::span<const Node> from) {
  std::vector<std::string> parts;
  for (Node n : from) parts.push_back(value(n));
  auto lanes = static_cast<std::int64_t>(from[0].dtype().lanes);
  for (; parts.size() > 1; lanes *= 2) {
    const std::string type = llvm_type(from[0].dtype().element().vec(static_cast<std::uint16_t>(lanes)));
    std::string picks;
    for (std::int64_t i = 0; i < 2 * lanes; ++i) picks += fmt::format("{}i32 {}", i == 0 ? "" : ", ", i);
    std::vector<std::string> pairs;
    for (std::size_t i = 0; i < parts.size(); i += 2)
      pairs.push_back(emit("shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>", type, parts[i], parts[i + 1],
                           2 * lanes, picks));
    parts = std::move(pairs);
  }
  return parts[0];
}

std::string LlvmPrinter::vector_op(Node node) {
  DType dtype = node.dtype();
  std::string type = llvm_type(dtype);
  int lanes = dtype.lanes;
  switch (node.op()) {
    case Op::Splat: {
      if (constant_of(node)) return llvm_constant(dtype, constant_of(node));
      std::string first = emit("insertelement {} poison, {}, i64 0", type, typed(node.arg(0)));
      return emit("shufflevector {} {}, {} poison, <{} x i32> zeroinitializer", type, first, type, lanes);
    }
    case Op::Vec: {
      const std::vector<Node> from = shuffled_vectors(node);
      if (from.size() > 1 && from[0].dtype().lanes < dtype.lanes) return joined_vectors(from);
      if (!from.empty()) return from.size() == 1 ? picked_lanes(node, from[0]) : woven_lanes(node, from);
      std::string built = "poison";
      for (std::size_t i = 0; i < node.arg_count(); ++i)
        built = emit("insertelement {} {}, {}, i64 {}", type, built, typed(node.arg(i)), i);
      return built;
    }
    case Op::Lane: return emit("extractelement {}, i64 {}", typed(node.arg(0)), node.int_attr());
    case Op::Iota: {
      std::string element = llvm_type(dtype.element()), text = "<";
      for (int i = 0; i < lanes; ++i) text += fmt::format("{}{} {}", i == 0 ? "" : ", ", element, i);
      return text + ">";
    }
    default: return hreduce(node);
  }
}

// The upper half onto the lower half, again and again; one after the other where the lanes are no power of
// two.
std::string LlvmPrinter::hreduce(Node node) {
  Op op = static_cast<Op>(node.int_attr());
  DType dtype = node.arg(0).dtype(), element = dtype.element();
  std::string x = value(node.arg(0));
  int lanes = dtype.lanes;
  const auto part = [&](int begin, int count) {
    if (count == 1) return emit("extractelement {} {}, i64 {}", llvm_type(dtype), x, begin);
    std::string picks;
    for (int i = 0; i < count; ++i) picks += fmt::format("{}i32 {}", i == 0 ? "" : ", ", begin + i);
    std::string type = llvm_type(dtype);
    return emit("shufflevector {} {}, {} poison, <{} x i32> <{}>", type, x, type, count, picks);
  };
  if ((lanes & (lanes - 1)) != 0) {
    std::string sum = part(0, 1);
    for (int i = 1; i < lanes; ++i) sum = combine(op, element, sum, part(i, 1));
    return sum;
  }
  while (lanes > 1) {
    lanes /= 2;
    std::string low = part(0, lanes), high = part(planted(Fault::LlvmHReduce) ? 0 : lanes, lanes);
    DType half = dtype.vec(static_cast<std::uint16_t>(lanes));
    x = combine(op, half, low, high);
    dtype = half;
  }
  return x;
}

// The unit's intrinsic and what it leaves to do; words are vectors of their parts there.
std::string LlvmPrinter::dot_product(Node node) {
  const MatrixUnit* unit = unit_for_dot(target_.units, node.text());
  check_internal(unit != nullptr, "llvm_text", "the target has no unit for this product");
  const int lanes = node.dtype().lanes;
  std::string sum = llvm_type(node.dtype()), words = llvm_type(node.arg(0).dtype());
  std::string x = value(node.arg(0)), y = value(node.arg(1));
  const DotKind& kind = dot_kind(node);
  if (kind.x == Scalar::BFloat16 || unit->sum != UnitSum::Done) {
    const std::string parts = fmt::format("<{} x {}>", kind.parts * lanes,
                                          kind.x == Scalar::BFloat16 ? "bfloat" : llvm_type(DType(kind.x)));
    x = emit("bitcast {} {} to {}", words, x, parts);
    y = emit("bitcast {} {} to {}", words, y, parts);
    words = parts;
  }
  if (unit->sum == UnitSum::Done)
    return call(intrinsic_of(*unit, lanes), sum, {sum, words, words}, {value(node.arg(2)), x, y});
  const std::string pairs = fmt::format("<{} x i16>", 2 * lanes);
  std::string products =
      call(intrinsic_of(*unit, lanes), unit->sum == UnitSum::Add ? sum : pairs, {words, words}, {x, y});
  if (unit->sum == UnitSum::AddPairs)
    products = call(pair_sums_intrinsic(lanes), sum, {pairs, pairs}, {products, "splat (i16 1)"});
  return emit("add {} {}, {}", sum, value(node.arg(2)), products);
}

}  // namespace lathe::render
