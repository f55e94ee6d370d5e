// Elementwise operations of several tensors: promotion, broadcasting, devices, and the rows of binary.def.
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "tensor/impl.h"
#include "tensor/own_gradient.h"

namespace lathe {

std::string describe(const Tensor& t) {
  return fmt::format("{} {} on {}", to_string(t.shape()), t.dtype().name(), t.device());
}

namespace {

// A number that nobody has put anywhere.
bool has_no_place(const Tensor& t) {
  return t.ndim() == 0 && t.device() == default_device() && device_of(node_of(t)).empty();
}

}  // namespace

std::string common_device(std::string_view op, const Tensor& a, const Tensor& b) {
  if (a.device() == b.device()) return a.device();
  const bool a_adapts = has_no_place(a), b_adapts = has_no_place(b);
  if (a_adapts != b_adapts) return a_adapts ? b.device() : a.device();
  throw UserError(op, fmt::format("tensors are on different devices: {} and {}", describe(a), describe(b)))
      .help(fmt::format("move one: to(\"{}\")", a.device()));
}

Tensor constant(Number value, DataType dtype, const Tensor& like) {
  DType d = ir_dtype(dtype);
  Node c = value.kind() != Number::Kind::Float && !d.is_float()
               ? cast(int_const(dtypes::Int64, value.to_int()), d)
               : number(d, value.to_double());
  Tensor out = make_tensor(c, like.device());
  out.impl()->weak = true;
  return out;
}

DataType common_dtype(const Tensor& a, const Tensor& b) {
  const DataType x = a.dtype(), y = b.dtype();
  if (a.impl()->weak == b.impl()->weak) return least_upper_dtype(x, y);
  const DataType weak = a.impl()->weak ? x : y, own = a.impl()->weak ? y : x;
  return dtype_kind(weak) > dtype_kind(own) ? weak : own;
}

DataType operand_dtype(const Operand& operand, const Tensor& beside) {
  if (operand.tensor() != nullptr) return common_dtype(beside, *operand.tensor());
  if (operand.is_size()) return least_upper_dtype(beside.dtype(), Number(1));
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
  return both_weak(make_tensor(apply(op, a, b), device, is_tracked(x) || is_tracked(y)), x, y);
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
  return both_weak(make_tensor(out, device, is_tracked(x) || is_tracked(y)), x, y);
}

// ---- the helpers binary.def names: x and y have one dtype

namespace {

enum class Rule : std::uint8_t { Common, Float, Whole };

Tensor difference(const Tensor& x, const Tensor& y) {
  if (x.dtype().is_bool()) refuse_dtype("sub", x, "a number");
  return x.dtype().is_float() ? primitive(Op::Sub, x, y) : primitive(Op::Add, x, y.neg());
}

Tensor floor_quotient(const Tensor& x, const Tensor& y) {
  return x.dtype().is_float() ? primitive(Op::Div, x, y).floor() : primitive(Op::FloorDiv, x, y);
}
// The result has the divisor's sign, as Python's %.
Tensor floor_remainder(const Tensor& x, const Tensor& y) {
  return x.dtype().is_float() ? x - floor_quotient(x, y) * y : primitive(Op::FloorMod, x, y);
}
// The result has the dividend's sign, as C's.
Tensor trunc_remainder(const Tensor& x, const Tensor& y) {
  return x.dtype().is_float() ? x - (x / y).trunc() * y : primitive(Op::TruncMod, x, y);
}

Tensor with_sign(const Tensor& x, const Tensor& y) {
  // -0 is not less than 0, but its reciprocal is.
  Tensor negative = (y < 0) | ((y == 0) & (y.reciprocal() < 0));
  Tensor size = x.abs();
  return negative.where(size.neg(), size);
}

Tensor log_add_exp(const Tensor& x, const Tensor& y) {
  Tensor top = x.maximum(y);
  Tensor safe = top.isinf().where(0, top).detach();
  return ((x - safe).exp() + (y - safe).exp()).log() + safe;
}

// not (y < x) is wrong for NaN.
Tensor at_most(const Tensor& x, const Tensor& y) {
  Tensor greater = primitive(Op::Less, y, x).logical_not();
  if (!x.dtype().is_float()) return greater;
  return primitive(Op::Less, x, y) | primitive(Op::Eq, x, y);
}

DataType dtype_for(Rule rule, const Tensor& x, const Operand& y, std::string_view op) {
  DataType d = operand_dtype(y, x);
  if (rule == Rule::Float) return least_upper_float(d);
  if (rule == Rule::Whole && d.is_float())
    throw TypeError(op, fmt::format("{} has no bits to work on", d.name())).help("cast to an integer dtype");
  return d;
}

}  // namespace

#define LATHE_BINARY(name, rule, meaning)                                            \
  Tensor Tensor::name(const Operand& other) const {                                  \
    Scope scope;                                                                     \
    DataType d = dtype_for(Rule::rule, *this, other, #name);                         \
    if (other.tensor() != nullptr) check_same_device(#name, *this, *other.tensor()); \
    Tensor x = converted(*this, d), y = operand_tensor(other, *this, d);             \
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
  return d.is_float() ? primitive(Op::Div, x, y).trunc() : primitive(Op::TruncDiv, x, y);
}

Tensor Tensor::where(const Operand& yes, const Operand& no) const {
  Scope scope;
  auto literal_dtype = [](const Operand& o) {
    return o.is_size() ? dtypes::default_int() : o.number().dtype();
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

Tensor Tensor::lerp(const Tensor& end, const Operand& weight) const {
  return *this + (end - *this).mul(weight);
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

// |x|^y by logarithms, with the sign x^y has where y is whole, NaN where it has none, and 1 for y = 0.
Tensor general_power(const Tensor& base, const Tensor& exponent) {
  const Nodes common = broadcast_shapes(node_of(base).shape(), node_of(exponent).shape(), "pow");
  auto whole_shape = [&](const Tensor& t) { return make_like(t, broadcast_to(node_of(t), common, "pow")); };
  const Tensor x = whole_shape(base), y = whole_shape(exponent);
  Tensor size = (x.abs().log2() * y).exp2();
  Tensor zero = x == 0;
  size = (zero & (y == 0)).where(1, size);
  Tensor negative = x < 0;
  Tensor whole = y == y.floor();
  Tensor odd = (y * 0.5).floor() * 2 != y;
  Tensor signed_size = odd.where(size.neg(), size);
  const Tensor power = negative.where(whole.where(signed_size, std::nan("")), size);
  return with_own_gradient("lathe.pow", power, {x, y});
}

}  // namespace

Tensor Tensor::pow(const Operand& exponent) const {
  Scope scope;
  constexpr double kLargestUnrolled = 64;
  if (exponent.tensor() == nullptr && !exponent.is_size()) {
    Number n = exponent.number();
    double e = n.to_double();
    DataType d = operand_dtype(exponent, *this);
    Tensor x = converted(*this, d);
    if (e == std::floor(e) && std::abs(e) <= kLargestUnrolled) {
      if (e >= 0) return whole_power(x, static_cast<std::int64_t>(e));
      if (!d.is_float())
        throw UserError("pow", fmt::format("{} to the power {} is no integer", d.name(), e))
            .help("cast to a float dtype");
      return with_own_gradient("lathe.inverse_pow",
                               whole_power(x, static_cast<std::int64_t>(-e)).reciprocal(),
                               {x, constant(n, d, x)});
    }
    if (e == 0.5) return x.sqrt();
    if (e == -0.5) return x.rsqrt();
    return general_power(x, constant(n, x.dtype(), x));
  }
  DataType d = operand_dtype(exponent, *this);
  DataType f = least_upper_float(d);
  Tensor out = general_power(converted(*this, f), operand_tensor(exponent, *this, f));
  return d.is_float() ? out : out.round().cast(d);
}

Tensor Tensor::rpow(Number base) const {
  Scope scope;
  return literal_beside(base, *this).pow(*this);
}

Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  Scope scope;
  Tensor near = (*this - other).abs() <= other.abs() * rtol + atol;
  Tensor finite = isfinite() & other.isfinite();
  Tensor out = (finite & near) | (finite.logical_not() & (*this == other));
  return equal_nan ? out | (isnan() & other.isnan()) : out;
}

bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
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
  const Tensor raised = low != nullptr ? (*this < *low).where(*low, *this) : *this;
  return high != nullptr ? (raised > *high).where(*high, raised) : raised;
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
