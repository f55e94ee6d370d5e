#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/planted.h"
#include "ir/build.h"
#include "render/c_printer.h"
#include "render/prepare.h"
#include "rules/index_parts.h"

namespace lathe::render {
namespace {

// {0}, {1}, {2} of an op's text by the operands.
std::string with_operands(std::string_view text, const std::vector<std::string>& x) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' && i + 2 < text.size() && text[i + 2] == '}') {
      out += x[static_cast<std::size_t>(text[i + 1] - '0')];
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Bool arithmetic is logic.
Op logic_of(Op op) {
  switch (op) {
    case Op::Add:
    case Op::Max: return Op::Or;
    case Op::Mul:
    case Op::Min: return Op::And;
    default: return op;
  }
}

std::string_view guarded_helper(Op op, bool is_unsigned) {
  switch (op) {
    case Op::TruncDiv: return is_unsigned ? "udiv" : "div";
    case Op::TruncMod: return is_unsigned ? "umod" : "mod";
    case Op::FloorDiv: return is_unsigned ? "udiv" : "floordiv";
    case Op::FloorMod: return is_unsigned ? "umod" : "floormod";
    case Op::Shl: return "shl";
    case Op::Shr: return "shr";
    default: return "";
  }
}

DType same_width_int(DType dtype) {
  DType scalar = dtype.bits() == 8    ? dtypes::Int8
                 : dtype.bits() == 16 ? dtypes::Int16
                 : dtype.bits() == 32 ? dtypes::Int32
                                      : dtypes::Int64;
  return scalar.vec(dtype.lanes);
}

// Whether every operand that could need care is known to be harmless.
bool is_plain(Node node) {
  switch (node.op()) {
    case Op::TruncDiv:
    case Op::TruncMod: return divides_plainly(node.arg(1));
    case Op::FloorDiv:
    case Op::FloorMod: return node.dtype().is_unsigned() && divides_plainly(node.arg(1));
    case Op::Shl:
    case Op::Shr: return shifts_plainly(node.arg(1));
    default: return true;
  }
}

}  // namespace

std::string CPrinter::constant(DType dtype, Node c) {
  if (dtype.is_float()) {
    double v = c.float_attr();
    bool is_double = dtype.scalar == Scalar::Float64;
    if (!is_double) v = static_cast<double>(static_cast<float>(v));
    if (std::isfinite(v)) return fmt::format("{:a}{}", v, is_double ? "" : "f");
    std::string bits = is_double
                           ? fmt::format("0x{:x}ull", std::bit_cast<std::uint64_t>(v))
                           : fmt::format("0x{:x}u", std::bit_cast<std::uint32_t>(static_cast<float>(v)));
    return cast_text(dtype.element(), is_double ? dtypes::UInt64 : dtypes::UInt32, bits, true);
  }
  std::int64_t v = c.int_attr();
  if (dtype.scalar == Scalar::UInt64) return fmt::format("{}ull", static_cast<std::uint64_t>(v));
  if (dtype.scalar == Scalar::UInt32) return fmt::format("{}u", v);
  if (dtype.bits() == 64) {
    if (v == std::numeric_limits<std::int64_t>::min()) return "(-9223372036854775807ll - 1)";
    return v < 0 ? fmt::format("({}ll)", v) : fmt::format("{}ll", v);
  }
  if (v == std::numeric_limits<std::int32_t>::min()) return "(-2147483647 - 1)";
  return v < 0 ? fmt::format("({})", v) : fmt::format("{}", v);
}

// All lanes given; GNU vectors leave their padding zero.
std::string CPrinter::vector_literal(DType dtype, const std::vector<std::string>& lanes) {
  if (!dialect_.vectors) return fmt::format("{{{{{}}}}}", fmt::join(lanes, ", "));
  if (!dtype.is_bool()) return fmt::format("({}){{{}}}", unit_.type(dtype), fmt::join(lanes, ", "));
  std::vector<std::string> masks;
  for (const std::string& lane : lanes) masks.push_back("-(" + lane + ")");
  return fmt::format("({}){{{}}}", unit_.type(dtype), fmt::join(masks, ", "));
}

std::string CPrinter::repeat(DType dtype, const std::string& scalar) {
  if (dtype.lanes == 1) return scalar;
  return vector_literal(dtype, std::vector<std::string>(dtype.lanes, scalar));
}

std::string CPrinter::op_text(Op op, DType dtype, const std::vector<std::string>& x, bool plain) {
  DType scalar = dtype.element();
  if (scalar.is_bool()) {
    op = logic_of(op);
    if (op == Op::Not) return fmt::format("(!{})", x[0]);
  }
  if (!plain)
    if (std::string_view name = guarded_helper(op, scalar.is_unsigned()); !name.empty())
      return fmt::format("{}({}, {})", unit_.helper(name, scalar), x[0], x[1]);
  if (op == Op::FloorDiv) op = Op::TruncDiv;  // plain only where nothing is negative
  if (op == Op::FloorMod) op = Op::TruncMod;
  // Two unsigned shorts would meet as int and overflow it.
  if (op == Op::Mul && scalar.scalar == Scalar::UInt16)
    return fmt::format("((unsigned int){} * {})", x[0], x[1]);
  std::string_view text = info(op).text;
  for (const OpSpelling& row : dialect_.ops)
    if (row.op == op) text = row.text;
  if (text.starts_with("lathe_")) {
    std::size_t end = text.find('(');
    std::string name = unit_.helper(text.substr(6, end - 6), scalar);
    return with_operands(name + std::string(text.substr(end)), x);
  }
  return with_operands(text, x);
}

// Signed arithmetic as unsigned where the language would leave its overflow open; empty where it may be as
// it is.
std::string CPrinter::wrapped(Node node, DType dtype, const std::vector<std::string>& x) {
  Op op = node.op();
  bool arithmetic = op == Op::Add || op == Op::Sub || op == Op::Mul || op == Op::Neg;
  bool is_signed = dtype.is_int() && !dtype.is_unsigned();
  // Narrower integers are computed as int, which holds every result.
  if (dialect_.wraps || !arithmetic || !is_signed || dtype.bits() < 32 || never_wraps(node)) return "";
  std::string bits = unit_.type(dtype.bits() == 32 ? dtypes::UInt32 : dtypes::UInt64);
  std::vector<std::string> operands;
  for (const std::string& text : x) operands.push_back(fmt::format("({}){}", bits, text));
  return fmt::format("(({}){})", unit_.type(dtype.element()), with_operands(info(op).text, operands));
}

namespace {

// The float whose bits, rounded to bfloat16, are the lower half of a word, or null.
Node rounded_in_word(Node word) {
  if (!word.is(Op::Cast) || !word.arg(0).is(Op::Bitcast)) return Node();
  Node rounded = word.arg(0).arg(0);
  const bool is = rounded.is(Op::Cast) && rounded.dtype() == dtypes::BFloat16 &&
                  rounded.arg(0).dtype() == dtypes::Float32;
  return is ? rounded.arg(0) : Node();
}

}  // namespace

// A word of two rounded floats by one instruction, where the dialect has it.
std::string CPrinter::rounded_pair(Node node) {
  if (!node.is(Op::Or) || node.dtype() != dtypes::UInt32) return "";
  const bool has = std::any_of(dialect_.helpers.begin(), dialect_.helpers.end(),
                               [](const Spelling& s) { return s.name == "bfloat16_pair"; });
  for (std::size_t i = 0; has && i < 2; ++i) {
    Node shifted = node.arg(1 - i), low = rounded_in_word(node.arg(i));
    if (!low || !shifted.is(Op::Shl) || !shifted.arg(1).is_const_int(16)) continue;
    if (Node high = rounded_in_word(shifted.arg(0)))
      return fmt::format("{}({}, {})", unit_.helper("bfloat16_pair", dtypes::Float32), value(low),
                         value(high));
  }
  return "";
}

std::string CPrinter::scalar_op(Node node) {
  if (node.dtype().lanes > 1) return dialect_.vectors ? gnu_op(node) : by_lanes(node);
  if (std::string text = rounded_pair(node); !text.empty()) return text;
  std::vector<std::string> x;
  for (Node arg : node.args()) x.push_back(value(arg));
  DType dtype = node.is(Op::Where) ? node.arg(1).dtype() : node.arg(0).dtype();
  if (node.is(Op::Where)) return fmt::format("({} ? {} : {})", x[0], x[1], x[2]);
  if ((node.is(Op::Max) || node.is(Op::Min)) && compares_backwards(node)) {
    std::swap(x[0], x[1]);
    if (is_number(node.arg(1)))  // one comparison decides: unordered keeps the value
      return fmt::format("({0} {2} {1} ? {0} : {1})", x[0], x[1], node.is(Op::Max) ? ">" : "<");
  }
  if (planted(Fault::CSub) && node.is(Op::Sub)) std::swap(x[0], x[1]);
  if (std::string text = wrapped(node, dtype, x); !text.empty()) return text;
  return op_text(node.op(), dtype, x, is_plain(node));
}

// A comparison of vectors as a bool vector.
std::string CPrinter::mask(DType dtype, const std::string& comparison) {
  return fmt::format("__builtin_convertvector({}, {})", comparison,
                     unit_.type(dtypes::Bool.vec(dtype.lanes)));
}

std::string CPrinter::select(DType dtype, const std::string& condition, const std::string& x,
                             const std::string& y) {
  DType bits = dtype.is_bool() ? dtype : same_width_int(dtype);
  std::string type = unit_.type(dtype), mask_type = unit_.type(dtypes::Bool.vec(dtype.lanes)),
              bits_type = unit_.type(bits), name = "lathe_select_" + dtype.str();
  unit_.function(name, [&] {
    return fmt::format(
        "{0} {1} {2}({3} c, {1} x, {1} y) {{\n"
        "  {4} k = __builtin_convertvector(c, {4});\n  return ({1})((k & ({4})x) | (~k & ({4})y));\n}}",
        dialect_.helper, type, name, mask_type, bits_type);
  });
  if (planted(Fault::CSelect)) return fmt::format("{}({}, {}, {})", name, condition, y, x);
  return fmt::format("{}({}, {}, {})", name, condition, x, y);
}

// Ops that GNU vectors have are printed as they are; maximum and minimum are a selection; the rest goes lane
// by lane.
std::string CPrinter::gnu_op(Node node) {
  Op op = node.op();
  DType dtype = node.is(Op::Where) ? node.arg(1).dtype() : node.arg(0).dtype();
  std::vector<std::string> x;
  for (Node arg : node.args()) x.push_back(value(arg));
  if (dtype.is_bool() && op != Op::Where) {
    op = logic_of(op);
    std::string type = unit_.type(dtype);
    switch (op) {
      case Op::Not: return fmt::format("(~{})", x[0]);
      case Op::Less: return fmt::format("(~{} & {})", x[0], x[1]);
      case Op::Eq: return fmt::format("(~({} ^ {}))", x[0], x[1]);
      case Op::Ne: return fmt::format("({} ^ {})", x[0], x[1]);
      default: return with_operands(info(op).text, x);
    }
  }
  switch (op) {
    case Op::Where: return select(dtype, x[0], x[1], x[2]);
    case Op::Max:
    case Op::Min: {
      const char* wins = (op == Op::Max) != planted(Fault::CMax) ? ">" : "<";
      if (!dtype.is_float())
        return select(dtype, mask(dtype, fmt::format("({} {} {})", x[0], wins, x[1])), x[0], x[1]);
      if (compares_backwards(node)) std::swap(x[0], x[1]);
      if (is_number(node.arg(1)))
        return select(dtype, mask(dtype, fmt::format("({} {} {})", x[0], wins, x[1])), x[0], x[1]);
      return select(dtype, mask(dtype, fmt::format("(({0} != {0}) | ({0} {2} {1}))", x[0], x[1], wins)), x[0],
                    x[1]);
    }
    case Op::Less:
    case Op::Eq:
    case Op::Ne: return mask(dtype, with_operands(info(op).text, x));
    case Op::Recip: return fmt::format("({} / {})", repeat(dtype, "1"), x[0]);
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::And:
    case Op::Or:
    case Op::Xor:
    case Op::Neg:
    case Op::Not: return with_operands(info(op).text, x);
    case Op::Shl:
    case Op::Shr:
      if (is_plain(node)) return with_operands(info(op).text, x);
      break;
    default: break;
  }
  return by_lanes(node);
}

std::string CPrinter::by_lanes(Node node) {
  DType dtype = node.dtype(), operand = node.is(Op::Where) ? node.arg(1).dtype() : node.arg(0).dtype();
  std::vector<std::string> lanes;
  for (int i = 0; i < dtype.lanes; ++i) {
    std::vector<std::string> x;
    for (Node arg : node.args()) x.push_back(lane_value(arg, i));
    if (node.is(Op::Where))
      lanes.push_back(fmt::format("({} ? {} : {})", x[0], x[1], x[2]));
    else if (std::string text = wrapped(node, operand.element(), x); !text.empty())
      lanes.push_back(text);
    else
      lanes.push_back(op_text(node.op(), operand, x, is_plain(node)));
  }
  return vector_literal(dtype, lanes);
}

// Between scalars; the widths on the way from float to integers are those of ir/value.h.
std::string CPrinter::cast_text(DType to, DType from, const std::string& x, bool reinterpret) {
  std::string type = unit_.type(to);
  if (reinterpret) {
    if (to.is_bool()) return fmt::format("({} != 0)", x);
    if (from.is_bool() || (!to.is_float() && !from.is_float())) return fmt::format("(({}){})", type, x);
    std::string name = fmt::format("lathe_as_{}_{}", to.str(), from.str());
    if (type == unit_.type(from)) return x;
    unit_.function(name, [&] {
      return fmt::format("{0} {1} {2}({3} x) {{ {1} r; __builtin_memcpy(&r, &x, sizeof r); return r; }}",
                         dialect_.helper, type, name, unit_.type(from));
    });
    return fmt::format("{}({})", name, x);
  }
  if (to.is_bool()) return fmt::format("({} != 0)", x);
  if (from.scalar == Scalar::Float16 && to.scalar == Scalar::Float32)
    return fmt::format("{}({})", unit_.helper("half_to_float", from), x);
  if (from.scalar == Scalar::Float32 && to.scalar == Scalar::Float16)
    return fmt::format("{}({})", unit_.helper("float_to_half", to), x);
  if (from.scalar == Scalar::Float32 && to.scalar == Scalar::BFloat16)
    return fmt::format("{}({})", unit_.helper("float_to_bfloat16", to), x);
  if (!from.is_float() || to.is_float()) return fmt::format("(({}){})", type, x);
  const char* name = to.scalar == Scalar::UInt64                      ? "to_u64"
                     : to.bits() == 64 || to.scalar == Scalar::UInt32 ? "to_i64"
                                                                      : "to_i32";
  return fmt::format("(({}){}({}))", type, unit_.helper(name, from), x);
}

std::string CPrinter::cast_value(Node node) {
  DType to = node.dtype(), from = node.arg(0).dtype();
  std::string x = value(node.arg(0));
  bool reinterpret = node.is(Op::Bitcast);
  if (to.lanes == 1) return cast_text(to, from, x, reinterpret);
  std::string type = unit_.type(to);
  bool lane_by_lane = !dialect_.vectors || (from.is_float() && to.is_int() && !reinterpret) ||
                      from.scalar == Scalar::Float16 || to.scalar == Scalar::Float16;
  if (lane_by_lane) {
    std::vector<std::string> lanes;
    for (int i = 0; i < to.lanes; ++i)
      lanes.push_back(cast_text(to.element(), from.element(), lane_value(node.arg(0), i), reinterpret));
    return vector_literal(to, lanes);
  }
  if (to.is_bool()) return from.is_bool() ? x : mask(from, fmt::format("({} != {})", x, zero(from)));
  if (from.is_bool()) return fmt::format("__builtin_convertvector(-{}, {})", x, type);
  return reinterpret ? fmt::format("(({}){})", type, x)
                     : fmt::format("__builtin_convertvector({}, {})", x, type);
}

std::string CPrinter::machine_op(Node node) {
  const auto one = [&](int lane) {
    std::string x = lane_value(node.arg(0), lane);
    switch (node.op()) {
      case Op::Narrow: return fmt::format("{}({})", unit_.helper("narrow", dtypes::BFloat16), x);
      case Op::Fraction: return fmt::format("{}({})", unit_.helper("fraction", dtypes::Float32), x);
      case Op::Scale:
        return fmt::format("{}({}, {})", unit_.helper("scale", dtypes::Float32), x,
                           lane_value(node.arg(1), lane));
      default: break;
    }
    const std::size_t size = node.ints().size();
    const std::string type = unit_.type(node.dtype().element());
    const bool wraps = std::has_single_bit(size) || node.arg(0).lo() >= 0;
    const std::string at = wraps ? fmt::format("(unsigned long long){} % {}", x, size)
                                 : fmt::format("((long long){0} % {1} + {1}) % {1}", x, size);
    return fmt::format("((const {}[]){{{}}})[{}]", type, fmt::join(node.ints(), ", "), at);
  };
  if (node.dtype().lanes == 1) return one(0);
  std::vector<std::string> lanes;
  for (int i = 0; i < node.dtype().lanes; ++i) lanes.push_back(one(i));
  return vector_literal(node.dtype(), lanes);
}

std::string CPrinter::vector_op(Node node) {
  DType dtype = node.dtype();
  std::vector<std::string> lanes;
  switch (node.op()) {
    case Op::Splat: return repeat(dtype, value(node.arg(0)));
    case Op::Vec:
      for (Node arg : node.args()) lanes.push_back(value(arg));
      return vector_literal(dtype, lanes);
    case Op::Iota:
      for (int i = 0; i < dtype.lanes; ++i) lanes.push_back(fmt::format("{}", i));
      return vector_literal(dtype, lanes);
    case Op::Lane: return lane_value(node.arg(0), static_cast<int>(node.int_attr()));
    default: return hreduce(node);
  }
}

// The upper half onto the lower half, again and again; one after the other where the lanes are no power of
// two.
std::string CPrinter::hreduce(Node node) {
  Op op = static_cast<Op>(node.int_attr());
  DType dtype = node.arg(0).dtype(), element = dtype.element();
  std::string type = unit_.type(dtype), scalar = unit_.type(element);
  std::string name = fmt::format("lathe_reduce_{}_{}", info(op).name, dtype.str());
  bool halves = std::has_single_bit(unsigned{dtype.lanes});
  std::string step = halves ? op_text(op, element, {"t[i]", "t[i + n]"}, true)
                            : op_text(op, element, {"t[0]", "t[i]"}, true);
  unit_.function(name, [&] {
    std::string text = fmt::format("{} {} {}({} x) {{\n  {} t[{}];\n", dialect_.helper, scalar, name, type,
                                   scalar, dtype.lanes);
    text += fmt::format("  for (int i = 0; i < {}; ++i) t[i] = {};\n", dtype.lanes,
                        dialect_.vectors ? "x[i]" : "x.v[i]");
    text += halves ? fmt::format(
                         "  for (int n = {}; n > 0; n /= 2)\n    for (int i = 0; i < n; ++i) t[i] = {};\n",
                         dtype.lanes / 2, step)
                   : fmt::format("  for (int i = 1; i < {}; ++i) t[0] = {};\n", dtype.lanes, step);
    return text + "  return t[0];\n}";
  });
  return fmt::format("{}({})", name, value(node.arg(0)));
}

}  // namespace lathe::render
