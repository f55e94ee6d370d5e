// Elementwise operations of several tensors: promotion, broadcasting, devices, and the rows of binary.def.
#include <cctype>
#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>

#include "tensor/functions.h"
#include "tensor/impl.h"
#include "tensor/own_gradient.h"
#include "tensor/remainder.h"

namespace lathe {

std::string describe(const Tensor& t) {
  return fmt::format("{} {} on {}", to_string(t.shape()), t.dtype().name(), t.device());
}

namespace {

// Of two devices the one that can compute: DISK cannot.
std::string where_to_meet(const std::string& a, const std::string& b) {
  const bool a_is_file = a.starts_with("DISK"), b_is_file = b.starts_with("DISK");
  return a_is_file && b_is_file ? "CPU" : a_is_file ? b : a;
}

// Whether the tensor is a scalar that was not placed on a device.
bool has_no_place(const Tensor& t) {
  return t.ndim() == 0 && t.device() == default_device() && device_of(node_of(t)).empty();
}

}  // namespace

std::string common_device(std::string_view op, const Tensor& a, const Tensor& b) {
  if (a.device() == b.device()) return a.device();
  const bool a_adapts = has_no_place(a), b_adapts = has_no_place(b);
  if (a_adapts != b_adapts) return a_adapts ? b.device() : a.device();
  throw UserError(op, fmt::format("tensors are on different devices: {} and {}", describe(a), describe(b)))
      .help(fmt::format("move one: to(\"{}\")", where_to_meet(a.device(), b.device())));
}

namespace {

// Whether a number is one of an integer dtype's width: -1 for an unsigned one and 0xff for int8 are its bits.
bool fits(Number value, DataType dtype) {
  if (value.kind() != Number::Kind::Int || !dtype.is_int() || dtype.itemsize() == 8) return true;
  const std::int64_t reach = std::int64_t{1} << dtype.bitsize();
  return value.to_int() >= -reach / 2 && value.to_int() < reach && value.dtype() != dtypes::uint64;
}

// Whether it is one of the dtype's numbers, not just its bits.
bool is_number_of(Number value, DataType dtype) {
  if (!fits(value, dtype)) return false;
  if (value.kind() != Number::Kind::Int || !dtype.is_int()) return true;
  if (value.dtype() == dtypes::uint64) return dtype == dtypes::uint64;
  return value.to_int() >= ir_dtype(dtype).min_int() &&
         (dtype.itemsize() == 8 || value.to_int() <= ir_dtype(dtype).max_int());
}

void check_fits(Number value, DataType dtype) {
  if (fits(value, dtype)) return;
  throw UserError("number", fmt::format("{} does not fit {}", value.to_double(), dtype.name()))
      .help("cast the tensor to a wider dtype first");
}

}  // namespace

Tensor constant(Number value, DataType dtype, const Tensor& like) {
  DType d = ir_dtype(dtype);
  check_fits(value, dtype);
  Node c = value.kind() != Number::Kind::Float && !d.is_float()
               ? cast(int_const(dtypes::Int64, value.to_int()), d)
               : number(d, value.to_double());
  Tensor out = make_tensor(c, like.device());
  out.impl()->weak = true;
  return out;
}

namespace {

// The dtype that holds every value of a size.
DataType size_dtype(const Size& size) {
  const Node n = size_node(size);
  const DType usual = ir_dtype(dtypes::default_int());
  return n.lo() >= usual.min_int() && n.hi() <= usual.max_int() ? dtypes::default_int() : dtypes::int64;
}

}  // namespace

DataType common_dtype(const Tensor& a, const Tensor& b) {
  const DataType x = a.dtype(), y = b.dtype();
  if (a.impl()->weak == b.impl()->weak) return least_upper_dtype(x, y);
  const DataType weak = a.impl()->weak ? x : y, own = a.impl()->weak ? y : x;
  return dtype_kind(weak) > dtype_kind(own) ? weak : own;
}

DataType operand_dtype(const Operand& operand, const Tensor& beside) {
  if (operand.tensor() != nullptr) return common_dtype(beside, *operand.tensor());
  if (operand.is_size()) {
    const DataType own = size_dtype(operand.size());
    const bool wide = own.itemsize() > dtypes::default_int().itemsize() && !beside.dtype().is_float();
    return wide ? least_upper_dtype(beside.dtype(), own) : least_upper_dtype(beside.dtype(), Number(1));
  }
  return least_upper_dtype(beside.dtype(), operand.number());
}

Tensor converted(const Tensor& x, DataType to) {
  if (to == x.dtype()) return x;
  Tensor out = x.cast(to);
  out.impl()->weak = x.impl()->weak;
  return out;
}

Tensor operand_tensor(const Operand& operand, const Tensor& beside, DataType dtype) {
  if (operand.tensor() != nullptr) return converted(*operand.tensor(), dtype);
  if (!operand.is_size()) return constant(operand.number(), dtype, beside);
  return make_tensor(cast(size_node(operand.size()), ir_dtype(dtype)), beside.device());
}

Tensor literal_beside(Number literal, const Tensor& tensor) {
  Scope scope;
  return constant(literal, least_upper_dtype(tensor.dtype(), literal), tensor);
}

namespace {

struct Pair {
  Node x, y;
};

// Both over the common shape. Scalars need no axes beside a tensor.
Pair broadcast_pair(const Tensor& a, const Tensor& b, std::string_view op) {
  Node x = node_of(a), y = node_of(b);
  if (x.rank() == 0 || y.rank() == 0 || x.shape_node() == y.shape_node()) return {x, y};
  Nodes common = broadcast_shapes(x.shape(), y.shape(), op);
  return {broadcast_to(x, common, op), broadcast_to(y, common, op)};
}

[[noreturn]] void refuse_dtype(std::string_view op, const Tensor& x, std::string_view needed) {
  throw TypeError(op, fmt::format("{} tensor where {} is needed", x.dtype().name(), needed));
}

// What is made of weak tensors alone is weak.
Tensor both_weak(Tensor out, const Tensor& x, const Tensor& y) {
  out.impl()->weak = x.impl()->weak && y.impl()->weak && out.ndim() == 0;
  return out;
}

// The op as errors name it: "add".
std::string method_name(Op op) {
  std::string name(info(op).name);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

void check_domain(Op op, const Tensor& x) {
  const OpInfo& row = info(op);
  DataType d = x.dtype();
  if (d.is_float() ? row.on_float : d.is_bool() ? row.on_bool : row.on_int) return;
  refuse_dtype(method_name(op), x,
               row.on_float ? "a float one"
               : row.on_int ? "an integer one"
                            : "a bool one");
}

}  // namespace

Tensor primitive(Op op, const Tensor& x) {
  Scope scope;
  check_domain(op, x);
  return make_like(x, apply(op, node_of(x)));
}

Tensor primitive(Op op, const Tensor& x, const Tensor& y) {
  Scope scope;
  check_domain(op, x);
  const std::string device = common_device(method_name(op), x, y);
  Pair pair{node_of(x), node_of(y)};
  if (pair.x.shape_node() != pair.y.shape_node()) pair = broadcast_pair(x, y, method_name(op));
  auto [a, b] = pair;
  check_internal(a.dtype() == b.dtype(), "primitive", "operands of two dtypes");
  return both_weak(make_tensor(apply(op, a, b), device, origin_of(x) | origin_of(y)), x, y);
}

Tensor select(const Tensor& condition, const Tensor& x, const Tensor& y) {
  Scope scope;
  const Tensor& chosen = common_device("where", condition, x) == x.device() ? x : condition;
  const std::string device = common_device("where", chosen, y);
  Node c = node_of(condition), a = node_of(x), b = node_of(y);
  Nodes common = broadcast_shapes(a.shape(), b.shape(), "where");
  common = broadcast_shapes(c.shape(), common, "where");
  auto fit = [&](Node n) { return n.rank() == 0 ? n : broadcast_to(n, common, "where"); };
  Node out = where(fit(c), fit(a), fit(b));
  return both_weak(make_tensor(out, device, origin_of(x) | origin_of(y)), x, y);
}

namespace {

constexpr double kLn2 = std::numbers::ln2;

// Both over the common shape: own gradients are of inputs as large as the result.
std::vector<Tensor> broadcast_tensors(const Tensor& a, const Tensor& b) {
  const Nodes common = broadcast_shapes(node_of(a).shape(), node_of(b).shape(), "broadcast");
  auto whole = [&](const Tensor& t) { return make_like(t, broadcast_to(node_of(t), common, "broadcast")); };
  return {whole(a), whole(b)};
}

}  // namespace

// ---- the helpers binary.def names: x and y have one dtype

namespace {

enum class Rule : std::uint8_t { Common, Float, Integral, Compare };

Tensor difference(const Tensor& x, const Tensor& y) {
  if (x.dtype().is_bool()) refuse_dtype("sub", x, "a number");
  return x.dtype().is_float() ? primitive(Op::Sub, x, y) : primitive(Op::Add, x, y.neg());
}

// Whether a rest of truncated division is on the other side of 0 than the divisor.
Tensor lies_apart(const Tensor& rest, const Tensor& y) { return (rest != 0) & ((rest < 0) != (y < 0)); }

// Rounded down. x - rest is n*y with a whole n, up to rounding.
Tensor floor_quotient(const Tensor& dividend, const Tensor& divisor) {
  const DataType dtype = dividend.dtype();
  if (!dtype.is_float()) return primitive(Op::FloorDiv, dividend, divisor);
  const DataType wide = dtype.itemsize() < 4 ? dtypes::float64 : dtype;
  const Tensor x = dividend.detach().cast(wide), y = divisor.detach().cast(wide), plain = x / y;
  const Tensor rest = truncated_remainder(dividend, divisor).cast(wide);
  const Tensor near = (x - rest) / y, quotient = lies_apart(rest, y).where(near - 1, near);
  const Tensor floor = quotient.floor(), whole = (quotient - floor > 0.5).where(floor + 1, floor);
  const Tensor zero = whole.zeros_like().copysign(plain);
  return (y == 0).where(plain, (quotient == 0).where(zero, whole)).cast(dtype);
}
// The result has the divisor's sign, as Python's %.
Tensor floor_remainder(const Tensor& x, const Tensor& y) {
  if (!x.dtype().is_float()) return primitive(Op::FloorMod, x, y);
  const Tensor rest = truncated_remainder(x, y), by = y.detach();
  const Tensor moved = lies_apart(rest, by).where(rest + by, rest);
  return with_own_gradient("lathe.mod", (rest == 0).where(rest.copysign(by), moved), broadcast_tensors(x, y));
}
// The result has the dividend's sign, as C's.
Tensor trunc_remainder(const Tensor& x, const Tensor& y) {
  if (!x.dtype().is_float()) return primitive(Op::TruncMod, x, y);
  return with_own_gradient("lathe.fmod", truncated_remainder(x, y), broadcast_tensors(x, y));
}

Tensor with_sign(const Tensor& x, const Tensor& y) {
  // -0 is not less than 0, but its reciprocal is.
  Tensor negative = (y < 0) | ((y == 0) & (y.reciprocal() < 0));
  Tensor size = x.abs();
  return negative.where(size.neg(), size);
}

// max + log(1 + e^-|x - y|), of which the second is 0 where both are the same infinity.
Tensor log_add_exp(const Tensor& x, const Tensor& y) {
  const DataType wide = sum_accumulator(x.dtype());
  const auto both = broadcast_tensors(x.cast(wide), y.cast(wide));
  const Tensor &a = both[0], &b = both[1], apart = (a - b).abs();
  const Tensor far = (a == b).where(kLn2, functions::softplus(apart.neg()));
  return with_own_gradient("lathe.logaddexp", a.maximum(b) + far, both).cast(x.dtype());
}

// not (y < x) is wrong for NaN.
Tensor at_most(const Tensor& x, const Tensor& y) {
  Tensor greater = primitive(Op::Less, y, x).logical_not();
  if (!x.dtype().is_float()) return greater;
  return primitive(Op::Less, x, y) | primitive(Op::Eq, x, y);
}

// Whether it is an integer that is beyond all of a dtype's.
bool is_beyond(const Operand& y, DataType dtype) {
  return y.tensor() == nullptr && !y.is_size() && !is_number_of(y.number(), dtype);
}

DataType dtype_for(Rule rule, const Tensor& x, const Operand& y, std::string_view op) {
  DataType d = operand_dtype(y, x);
  if (rule == Rule::Compare && is_beyond(y, d)) return dtypes::float32;
  if (rule == Rule::Float) return least_upper_float(d);
  if (rule == Rule::Integral && d.is_float())
    throw TypeError(op, fmt::format("bit operations are not defined on {}", d.name()))
        .help("cast to an integer dtype");
  return d;
}

// The right side of a binary op in dtype `d`. All integers as float32 are between the infinities, whatever
// the rounding: one of these stands for a number that the integers' dtype does not reach.
Tensor right_side(Rule rule, const Tensor& x, const Operand& y, DataType d) {
  if (rule == Rule::Compare && is_beyond(y, operand_dtype(y, x))) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return operand_tensor(Number(y.number().to_double() < 0 ? -kInfinity : kInfinity), x, d);
  }
  return operand_tensor(y, x, d);
}

}  // namespace

#define LATHE_BINARY(name, rule, meaning)                                            \
  Tensor Tensor::name(const Operand& other) const {                                  \
    Scope scope;                                                                     \
    DataType d = dtype_for(Rule::rule, *this, other, #name);                         \
    if (other.tensor() != nullptr) check_same_device(#name, *this, *other.tensor()); \
    Tensor x = converted(*this, d), y = right_side(Rule::rule, *this, other, d);     \
    return meaning;                                                                  \
  }
#include "lathe/binary.def"
#undef LATHE_BINARY

Tensor Tensor::div(const Operand& other, std::string_view rounding) const {
  if (rounding.empty()) return fdiv(other);
  if (rounding == "floor") return floor_divide(other);
  if (rounding != "trunc")
    throw UserError("div", fmt::format("rounding \"{}\" is unknown", rounding))
        .help("\"\", \"trunc\" or \"floor\"");
  Scope scope;
  DataType d = operand_dtype(other, *this);
  Tensor x = converted(*this, d), y = operand_tensor(other, *this, d);
  if (!d.is_float()) return primitive(Op::TruncDiv, x, y);
  const DataType wide = sum_accumulator(d);  // a quotient rounded to few bits may be the next integer
  return converted(primitive(Op::Div, converted(x, wide), converted(y, wide)).trunc(), d);
}

Tensor Tensor::where(const Operand& yes, const Operand& no) const {
  Scope scope;
  auto literal_dtype = [](const Operand& o) {
    return o.is_size() ? size_dtype(o.size()) : o.number().dtype();
  };
  DataType d = yes.tensor() != nullptr  ? operand_dtype(no, *yes.tensor())
               : no.tensor() != nullptr ? operand_dtype(yes, *no.tensor())
                                        : least_upper_dtype(literal_dtype(yes), literal_dtype(no));
  return select(cast(dtypes::bool_), operand_tensor(yes, *this, d), operand_tensor(no, *this, d));
}

Tensor Tensor::masked_fill(const Tensor& mask, const Operand& value) const {
  Scope scope;
  return mask.where(operand_tensor(value, *this, operand_dtype(value, *this)), *this);
}

// From the nearer end, so that a weight of 1 gives `end` itself.
Tensor Tensor::lerp(const Tensor& end, const Operand& weight) const {
  Scope scope;
  const DataType d = least_upper_float(operand_dtype(end, *this));
  const Tensor from = converted(*this, d), to = converted(end, d), way = to - from;
  if (weight.tensor() == nullptr && !weight.is_size()) {
    const double w = weight.number().to_double();
    return w < 0.5 ? from + way * w : to - way * (1 - w);
  }
  const Tensor w = operand_tensor(weight, from, operand_dtype(weight, from));
  return (w < 0.5).where(from + way * w, to - way * (1.0 - w));
}

namespace {

// x to a whole power by repeated squaring: exact signs, and gradients at 0.
Tensor whole_power(const Tensor& x, std::int64_t n) {
  std::optional<Tensor> out;
  Tensor square = x;
  for (std::uint64_t rest = static_cast<std::uint64_t>(n); rest != 0; rest >>= 1) {
    if (rest & 1) out = out ? *out * square : square;
    if (rest > 1) square = square * square;
  }
  return out ? *out : x.ones_like();
}

// |x|^y by logarithms in a dtype that has enough bits, and the rules of C's pow for signs, 0, 1, infinities
// and NaN.
Tensor general_power(const Tensor& base, const Tensor& exponent) {
  const auto both = broadcast_tensors(base, exponent);
  const DataType own = base.dtype(), wide = own.itemsize() < 4 ? dtypes::float32 : dtypes::float64;
  const Tensor x = both[0].detach().cast(wide), y = both[1].detach().cast(wide), a = x.abs();
  Tensor size = (a.log2() * y).exp2();
  size = ((a == 1) & (y == y)).where(1, size);  // 0 * inf
  const Tensor negative = (x < 0) | ((x == 0) & (x.reciprocal() < 0));
  const Tensor whole = y == y.floor(), odd = whole & ((y * 0.5).floor() * 2 != y);
  const Tensor none = (x < 0) & (a < INFINITY) & whole.logical_not();
  Tensor power = (negative & odd).where(size.neg(), size);
  power = none.where(std::nan(""), power);
  power = ((y == 0) | (x == 1)).where(1, power);
  return with_own_gradient("lathe.pow", power.cast(own), both);
}

// x^y in integers, which wrap. Negative powers are 0 except those of 1 and -1.
Tensor integer_power(const Tensor& base, const Tensor& exponent) {
  const auto both = broadcast_tensors(base, exponent);
  const Tensor &x = both[0], &y = both[1];
  if (x.dtype().is_bool()) return x | y.logical_not();
  Tensor out = x.ones_like(), square = x;
  for (int bit = 0; bit < x.dtype().bitsize() - (x.dtype().is_unsigned() ? 0 : 1); ++bit) {
    if (bit > 0) square = square * square;
    out = ((y >> bit) & 1).ne(0).where(out * square, out);
  }
  if (x.dtype().is_unsigned()) return out;
  return (y < 0).where((x == 1).where(1, (x == -1).where((y & 1).ne(0).where(x, x.neg()), 0)), out);
}

}  // namespace

Tensor Tensor::pow(const Operand& exponent) const {
  Scope scope;
  const DataType d = operand_dtype(exponent, *this);
  const Tensor x = converted(*this, d);
  if (exponent.tensor() != nullptr || exponent.is_size()) {
    const Tensor y = operand_tensor(exponent, *this, d);
    return d.is_float() ? general_power(x, y) : integer_power(x, y);
  }
  const Number n = exponent.number();
  const double e = n.to_double();
  if (!d.is_float()) {
    if (e < 0)
      throw UserError("pow", fmt::format("{} to the power {} is not an integer", d.name(), e))
          .help("cast to a float dtype");
    return d.is_bool() ? integer_power(x, constant(n, d, x)) : as_own(whole_power(x, n.to_int()));
  }
  // Each multiplication costs half a unit; beyond these logarithms are better.
  const double most = d == dtypes::float64 ? 64 : 8;
  if (e == std::floor(e) && std::abs(e) <= most) {
    const DataType wide = sum_accumulator(d);
    const Tensor base = converted(x, wide);
    const Tensor power = whole_power(base, static_cast<std::int64_t>(std::abs(e)));
    if (e >= 0) return as_own(converted(power, d));
    return converted(with_own_gradient("lathe.inverse_pow", power.reciprocal(), {base, constant(n, wide, x)}),
                     d);
  }
  if (e == 0.5) return x.sqrt();
  if (e == -0.5) return x.rsqrt();
  return general_power(x, constant(n, d, x));
}

Tensor Tensor::rpow(Number base) const {
  Scope scope;
  return literal_beside(base, *this).pow(*this);
}

namespace {

// The distance of two integers: modulo 2^64 the difference is exact, whatever their signs.
Tensor distance(const Tensor& x, const Tensor& y) {
  const Tensor apart = x.maximum(y).cast(dtypes::uint64) - x.minimum(y).cast(dtypes::uint64);
  return apart.cast(dtypes::float64);
}

}  // namespace

Tensor Tensor::isclose(const Operand& operand, double rtol, double atol, bool equal_nan) const {
  Scope scope;
  const Tensor other = operand_tensor(operand, *this, operand_dtype(operand, *this));
  const bool whole = !other.dtype().is_float();
  const Tensor scale = whole ? other.cast(dtypes::float64).abs() : other.abs();
  const Tensor near = (whole ? distance(*this, other) : (*this - other).abs()) <= scale * rtol + atol;
  Tensor finite = isfinite() & other.isfinite();
  Tensor out = (finite & near) | (finite.logical_not() & (*this == other));
  return equal_nan ? out | (isnan() & other.isnan()) : out;
}

bool Tensor::allclose(const Operand& other, double rtol, double atol, bool equal_nan) const {
  return isclose(other, rtol, atol, equal_nan).all().item<bool>();
}

Tensor Tensor::clamp(std::optional<Number> low, std::optional<Number> high) const {
  Scope scope;
  if (!low && !high) throw UserError("clamp", "neither a lower nor an upper bound was given");
  const Tensor raised = low ? maximum(*low) : *this;
  const Tensor out = high ? raised.minimum(*high) : raised;
  const DataType d = out.dtype();
  if (!d.is_float()) return out;
  return with_own_gradient(
      "lathe.clamp", out,
      {cast(d), constant(low.value_or(-INFINITY), d, out), constant(high.value_or(INFINITY), d, out)});
}
Tensor Tensor::clamp(const Tensor* low, const Tensor* high) const {
  if (low == nullptr && high == nullptr)
    throw UserError("clamp", "neither a lower nor an upper bound was given");
  Scope scope;
  // A bound that is NaN makes NaN, as in max and min.
  const auto passed = [](const Tensor& beyond, const Tensor& bound, const Tensor& x) {
    return (bound.is_floating_point() ? beyond | bound.isnan() : beyond).where(bound, x);
  };
  const Tensor raised = low != nullptr ? passed(*this < *low, *low, *this) : *this;
  return high != nullptr ? passed(raised > *high, *high, raised) : raised;
}

Tensor Tensor::usum(const std::vector<Tensor>& others) const {
  Tensor out = *this;
  for (const Tensor& t : others) out = out + t;
  return out;
}
Tensor Tensor::uprod(const std::vector<Tensor>& others) const {
  Tensor out = *this;
  for (const Tensor& t : others) out = out * t;
  return out;
}

}  // namespace lathe
