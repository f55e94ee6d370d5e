// Constants, shapes and dtypes: much of this is known while the graph is built.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "formats/onnx/evaluator.h"
#include "formats/onnx/load.h"
#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

Value known_ints(const std::vector<Size>& values, bool scalar = false) {
  Numbers shape;
  if (!scalar) shape.push_back(static_cast<std::int64_t>(values.size()));
  return make_known(dtypes::int64, shape, values);
}

std::vector<Size> shape_of(const Call& c) {
  const Value& v = c.value(0);
  if (v.kind() == Value::Kind::Strings) return {v.strings().shape.begin(), v.strings().shape.end()};
  if (v.known()) return {v.known()->shape.begin(), v.known()->shape.end()};
  return c.x(0).shape();
}

Outputs shape(const Call& c) {
  const std::vector<Size> all = shape_of(c);
  const auto rank = static_cast<std::int64_t>(all.size());
  auto placed = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const std::int64_t begin = placed(c.integer("start", 0)),
                     end = std::max(begin, placed(c.integer("end", rank)));
  return {known_ints({all.begin() + begin, all.begin() + end})};
}

Outputs size(const Call& c) {
  Size all = 1;
  for (const Size& s : shape_of(c)) all = all * s;
  return {known_ints({all}, true)};
}

Outputs constant(const Call& c) {
  if (c.node.attributes.size() != 1) c.fail("a constant has one value");
  const Attribute* a = c.attribute(c.node.attributes[0].name);
  if (a == nullptr) c.fail("the value of a constant is missing");
  switch (a->kind) {
    case Attribute::Kind::Tensor: return {c.evaluator.load(*a->tensor)};
    case Attribute::Kind::SparseTensor: c.not_supported("sparse constants are not read");
    case Attribute::Kind::Float: return {make_known_floats(dtypes::float32, {}, {a->f})};
    case Attribute::Kind::Floats:
      return {make_known_floats(dtypes::float32, {static_cast<std::int64_t>(a->floats.size())},
                                {a->floats.begin(), a->floats.end()})};
    case Attribute::Kind::Int: return {known_ints({Size(a->i)}, true)};
    case Attribute::Kind::Ints: return {known_ints({a->ints.begin(), a->ints.end()})};
    case Attribute::Kind::String: return {Strings{{}, {a->s}}};
    case Attribute::Kind::Strings:
      return {Strings{{static_cast<std::int64_t>(a->strings.size())}, a->strings}};
    default: c.fail("its value is of a kind that is not a constant");
  }
}

Outputs constant_of_shape(const Call& c) {
  const std::vector<Size> sizes = c.sizes(0);
  Tensor value = Tensor(0.0F, {.dtype = dtypes::float32, .device = c.device()});
  if (const Attribute* a = c.attribute("value")) {
    if (!a->tensor) c.fail("attribute value is not a tensor");
    const Value loaded = c.evaluator.load(*a->tensor);
    if (loaded.kind() != Value::Kind::Tensor) c.not_supported("strings cannot be repeated");
    if (loaded.known() && loaded.known()->count() == 1) {
      const Known& k = *loaded.known();
      bool known_shape = sizes.size() <= 1;
      for (const Size& s : sizes) known_shape &= !s.is_symbolic() && s.value() <= 64;
      if (known_shape && !k.is_float()) {
        const auto count = sizes.empty() ? 1 : sizes[0].value();
        if (count < 0) c.fail("a size is negative");
        return {make_known(k.dtype, sizes.empty() ? Numbers{} : Numbers{count},
                           std::vector<Size>(static_cast<std::size_t>(count), k.sizes[0]))};
      }
      const TensorOptions options{.dtype = k.dtype, .device = c.device()};
      return {k.is_float() ? Tensor::full(sizes, k.floats[0], options)
                           : Tensor::full(sizes, k.sizes[0].value(), options)};
    }
    value = loaded.tensor();
    if (!(value.numel() == 1)) c.fail("attribute value has more than one element");
  }
  return {value.reshape(Shape(sizes.size(), Size(1))).expand(sizes)};
}

std::string number_text(double v, bool is_float) {
  if (!is_float) return fmt::format("{}", static_cast<std::int64_t>(v));
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v > 0 ? "INF" : "-INF";
  return fmt::format("{}", static_cast<float>(v));
}

Outputs to_strings(const Call& c) {
  const Tensor& x = c.x(0);
  Strings out{concrete_shape(x, c), {}};
  for (double v : c.floats(0)) out.values.push_back(number_text(v, x.is_floating_point()));
  return {out};
}

double parsed_number(const Call& c, const std::string& text) {
  const std::string lower = [&] {
    std::string s;
    for (char ch : text) s += static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
    return s;
  }();
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (lower == "inf" || lower == "+inf") return std::numeric_limits<double>::infinity();
  if (lower == "-inf") return -std::numeric_limits<double>::infinity();
  double v = 0;
  const char* begin = text.data() + (!text.empty() && text[0] == '+' ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size())
    c.fail(fmt::format("'{}' is not a number", formats::shown(text)));
  return v;
}

Outputs from_strings(const Call& c, DataType to) {
  const Strings& s = c.value(0).strings();
  std::vector<double> values;
  for (const std::string& text : s.values) values.push_back(parsed_number(c, text));
  return {c.constant(values, Shape(s.shape.begin(), s.shape.end()), to)};
}

// Casts to 8-bit floats saturate unless told otherwise; the fnuz forms have no infinity to overflow to.
Tensor cast_float8(const Call& c, const Tensor& x, DataType to) {
  if (c.integer("saturate", 1) == 0) return x.cast(to);
  const double most = dtypes::finfo(to).max;
  const Tensor wide = x.cast(dtypes::float32);
  return wide.isnan().where(wide, wide.clamp(-most, most)).cast(to);
}

Outputs cast(const Call& c, Element to) {
  const Value& v = c.value(0);
  if (to == Element::String) return v.kind() == Value::Kind::Strings ? Outputs{v} : to_strings(c);
  const DataType dtype = dtype_for(to, c);
  if (v.kind() == Value::Kind::Strings) return from_strings(c, dtype);
  const Tensor& x = c.x(0);
  if (x.dtype() == dtype && to != Element::Uint4 && to != Element::Int4) return {v};
  if (dtype.is_float() && dtype.bitsize() == 8) return {cast_float8(c, x, dtype)};
  if (to == Element::Uint4) return {x.cast(dtypes::int32).bitwise_and(15).cast(dtype)};
  if (to == Element::Int4) return {((x.cast(dtypes::int32) + 8).bitwise_and(15) - 8).cast(dtype)};
  return {cast_to(x, dtype)};
}

Outputs cast_like(const Call& c) {
  if (c.value(1).kind() == Value::Kind::Strings) return cast(c, Element::String);
  if (const Element narrow = c.evaluator.narrow_element(c.node.inputs[1]); narrow != Element::Undefined)
    return cast(c, narrow);
  const DataType dtype = c.x(1).dtype();
  if (c.value(0).kind() == Value::Kind::Strings) return from_strings(c, dtype);
  if (dtype.is_float() && dtype.bitsize() == 8) return {cast_float8(c, c.x(0), dtype)};
  return {cast_to(c.x(0), dtype)};
}

Outputs bit_cast(const Call& c) {
  return {c.x(0).bitcast(dtype_for(static_cast<Element>(c.integer("to")), c))};
}

Outputs range(const Call& c) {
  const Tensor& start = c.x(0);
  const TensorOptions options{.dtype = start.dtype(), .device = c.device()};
  const Size limit = start.is_floating_point() ? Size(0) : c.sizes(1)[0];
  if (limit.is_symbolic() && c.integer(std::size_t(0)) == 0 && c.integer(std::size_t(2)) == 1)
    return {Tensor::arange(limit, options)};
  const double first = c.number(std::size_t(0)), last = c.number(std::size_t(1)),
               step = c.number(std::size_t(2));
  if (step == 0 || std::isnan(first + last + step)) c.fail("the step of a range is zero");
  const double count = std::max(0.0, std::ceil((last - first) / step));
  if (count > static_cast<double>(std::int64_t(1) << 40))
    c.fail(fmt::format("a range of {} elements is too long", count));
  const Tensor steps = Tensor::arange(
      static_cast<std::int64_t>(count),
      {.dtype = start.is_floating_point() ? dtypes::float64 : dtypes::int64, .device = c.device()});
  if (start.is_floating_point()) return {(steps * step + first).cast(start.dtype())};
  return {(steps * c.integer(std::size_t(2)) + c.integer(std::size_t(0))).cast(start.dtype())};
}

Outputs eye_like(const Call& c) {
  const Tensor& x = c.x(0);
  if (x.ndim() != 2) c.fail("a matrix is needed");
  const DataType dtype =
      c.has_attribute("dtype") ? dtype_for(static_cast<Element>(c.integer("dtype")), c) : x.dtype();
  const TensorOptions whole{.dtype = dtypes::int64, .device = c.device()};
  const Tensor rows = Tensor::arange(x.size(0).value(), whole).reshape({x.size(0), 1});
  const Tensor columns = Tensor::arange(x.size(1).value(), whole);
  return {(columns - rows).eq(c.integer("k", 0)).cast(dtype)};
}

// clang-format off
const OpRow kRows[] = {
    {"Constant", 1, constant},
    {"ConstantOfShape", 9, constant_of_shape, Trait::Lazy},
    {"Shape", 1, shape},
    {"Size", 1, size},
    {"Identity", 1, [](const Call& c) -> Outputs { return {c.value(0)}; }},
    {"Cast", 1, [](const Call& c) -> Outputs {
       if (c.version < 6) c.not_supported("Cast before version 6 names its dtype as text");
       return cast(c, static_cast<Element>(c.integer("to"))); }},
    {"CastLike", 15, cast_like},
    {"BitCast", 26, bit_cast},
    {"Range", 11, range, Trait::Lazy},
    {"EyeLike", 9, eye_like, Trait::Lazy},
};
// clang-format on

}  // namespace

// A float outside an integer's range has no defined cast; one into bool asks whether it is zero.
Tensor cast_to(const Tensor& x, DataType dtype) {
  if (x.dtype() == dtype) return x;
  return dtype.is_bool() ? x.ne(0) : x.cast(dtype);
}

OpTable shape_ops() { return {"", "constants and shapes", kRows}; }

}  // namespace lathe::onnx
