// One method a row of unary.def and binary.def, the operators of Python, and the elementwise functions with
// options.
#include "arrays.h"
#include "bind.h"
#include "released.h"

namespace lathe::python {
namespace {

// The operand as a tensor beside t, to stand on the left.
Tensor left(const Operand& x, const Tensor& t) {
  if (x.tensor() != nullptr) return *x.tensor();
  if (x.is_size()) return Tensor(Number(0), {.dtype = dtypes::default_int(), .device = t.device()}).add(x);
  return literal_beside(x.number(), t);
}

Tensor power(const Tensor& base, const Operand& exponent) { return base.pow(exponent); }
Tensor power_of(const Operand& base, const Tensor& exponent) {
  if (base.tensor() == nullptr && !base.is_size()) return exponent.rpow(base.number());
  return left(base, exponent).pow(exponent);
}

// A row of binary.def and its operator of Python.
struct Row {
  const char* name;
  Tensor (Tensor::*method)(const Operand&) const;
  const char* operand;  // what tinygrad calls the other one
};
constexpr const char* operand_name(std::string_view method) {
  return method == "copysign" || method == "logaddexp" ? "other" : "x";
}
constexpr Row kRows[] = {
#define LATHE_BINARY(name, rule, meaning) {#name, &Tensor::name, operand_name(#name)},
#include "lathe/binary.def"
#undef LATHE_BINARY
};
struct UnaryRow {
  const char* name;
  Tensor (Tensor::*method)() const;
};
constexpr UnaryRow kUnary[] = {
#define LATHE_UNARY(name, meaning) {#name, &Tensor::name},
#include "lathe/unary.def"
#undef LATHE_UNARY
};

std::string path(const char* name) { return std::string("Tensor.") + name; }

// In place with an array of another library, which stands for a tensor; the other operators come here by
// __array_ufunc__.
nb::object in_place_array(nb::handle self, nb::handle array, Tensor (Tensor::*method)(const Operand&) const) {
  Tensor& x = nb::cast<Tensor&>(self);
  const auto other = from_array(array, {.device = x.device()}, false);
  if (!other) return nb::borrow(Py_NotImplemented);
  x.assign((x.*method)(*other));
  return nb::borrow(self);
}

template <Tensor (Tensor::*Method)(const Operand&) const>
void operators(TensorClass& c, const char* plain, const char* reflected, const char* in_place) {
  c.def(plain, [](const Tensor& x, const Operand& y) { return (x.*Method)(y); }, nb::is_operator());
  if (reflected != nullptr)
    c.def(
        reflected, [](const Tensor& x, const Operand& y) { return (left(y, x).*Method)(x); },
        nb::is_operator());
  if (in_place != nullptr)
    c.def(
        in_place,
        [](nb::handle self, const Operand& y) {
          Tensor& x = nb::cast<Tensor&>(self);
          x.assign((x.*Method)(y));
          return nb::borrow(self);
        },
        nb::is_operator());
  if (in_place != nullptr)
    c.def(
        in_place, [](nb::handle self, nb::handle y) -> nb::object { return in_place_array(self, y, Method); },
        nb::is_operator());
}

}  // namespace

void bind_elementwise(TensorClass& c) {
  for (const UnaryRow& row : kUnary) {
    const std::string_view name = row.name;
    if (name == "isinf" || name == "hardsigmoid" || name == "selu") continue;  // these take options in Python
    c.def(row.name, [method = row.method](const Tensor& x) { return (x.*method)(); }, doc(path(row.name)));
  }
  for (const Row& row : kRows) {
    c.def(
        row.name,
        [method = row.method](const Tensor& x, const Operand& y, bool reverse) {
          return reverse ? (left(y, x).*method)(x) : (x.*method)(y);
        },
        nb::arg(row.operand), "reverse"_a = false, doc(path(row.name)));
  }
  operators<&Tensor::add>(c, "__add__", "__radd__", "__iadd__");
  operators<&Tensor::sub>(c, "__sub__", "__rsub__", "__isub__");
  operators<&Tensor::mul>(c, "__mul__", "__rmul__", "__imul__");
  operators<&Tensor::fdiv>(c, "__truediv__", "__rtruediv__", "__itruediv__");
  operators<&Tensor::floor_divide>(c, "__floordiv__", "__rfloordiv__", "__ifloordiv__");
  operators<&Tensor::mod>(c, "__mod__", "__rmod__", "__imod__");
  operators<&Tensor::bitwise_and>(c, "__and__", "__rand__", "__iand__");
  operators<&Tensor::bitwise_or>(c, "__or__", "__ror__", "__ior__");
  operators<&Tensor::bitwise_xor>(c, "__xor__", "__rxor__", "__ixor__");
  operators<&Tensor::lshift>(c, "__lshift__", "__rlshift__", "__ilshift__");
  operators<&Tensor::rshift>(c, "__rshift__", "__rrshift__", "__irshift__");
  operators<&Tensor::lt>(c, "__lt__", nullptr, nullptr);
  operators<&Tensor::le>(c, "__le__", nullptr, nullptr);
  operators<&Tensor::gt>(c, "__gt__", nullptr, nullptr);
  operators<&Tensor::ge>(c, "__ge__", nullptr, nullptr);
  operators<&Tensor::eq>(c, "__eq__", nullptr, nullptr);
  operators<&Tensor::ne>(c, "__ne__", nullptr, nullptr);
  c.def("__pow__", power, nb::is_operator());
  c.def("__rpow__", [](const Tensor& x, const Operand& y) { return power_of(y, x); }, nb::is_operator());
  c.def(
      "__ipow__",
      [](nb::handle self, const Operand& y) {
        Tensor& x = nb::cast<Tensor&>(self);
        x.assign(x.pow(y));
        return nb::borrow(self);
      },
      nb::is_operator());
  c.def("__neg__", [](const Tensor& x) { return x.neg(); });
  c.def("__pos__", [](nb::handle x) { return nb::borrow(x); });
  c.def("__invert__", [](const Tensor& x) { return x.bitwise_not(); });
  c.def("__abs__", [](const Tensor& x) { return x.abs(); });

  c.def(
      "isinf",
      [](const Tensor& x, bool positive, bool negative) {
        if (positive && negative) return x.isinf();
        const double inf = std::numeric_limits<double>::infinity();
        if (positive) return x.eq(inf);
        return negative ? x.eq(-inf) : x.ne(x) & x.eq(x);
      },
      "detect_positive"_a = true, "detect_negative"_a = true, doc("Tensor.isinf"));
  c.def(
      "hardsigmoid",
      [](const Tensor& x, double alpha, double beta) {
        return alpha == 1.0 / 6.0 && beta == 0.5 ? x.hardsigmoid() : (x * alpha + beta).relu().minimum(1);
      },
      "alpha"_a = 1.0 / 6.0, "beta"_a = 0.5, doc("Tensor.hardsigmoid"));
  c.def(
      "selu",
      [](const Tensor& x, std::optional<double> alpha, std::optional<double> gamma) {
        if (!alpha && !gamma) return x.selu();
        return x.elu(alpha.value_or(1.67326)) * gamma.value_or(1.0507);
      },
      "alpha"_a.none() = nb::none(), "gamma"_a.none() = nb::none(), doc("Tensor.selu"));
  c.def(
      "div",
      [](const Tensor& x, const Operand& y, bool reverse, std::optional<std::string> rounding_mode) {
        const std::string mode = rounding_mode.value_or("");
        return reverse ? left(y, x).div(x, mode) : x.div(y, mode);
      },
      "x"_a, "reverse"_a = false, "rounding_mode"_a.none() = nb::none(), doc("Tensor.div"));
  c.def(
      "idiv",
      [](const Tensor& x, const Operand& y, bool reverse) {
        return reverse ? left(y, x).div(x, "trunc") : x.div(y, "trunc");
      },
      "x"_a, "reverse"_a = false, doc("Tensor.idiv"));
  c.def(
      "pow",
      [](const Tensor& x, const Operand& y, bool reverse) { return reverse ? power_of(y, x) : power(x, y); },
      "x"_a, "reverse"_a = false, doc("Tensor.pow"));
  c.def(
      "where", [](const Tensor& t, const Operand& x, const Operand& y) { return t.where(x, y); }, "x"_a,
      "y"_a, doc("Tensor.where"));
  c.def(
      "masked_fill",
      [](const Tensor& t, const Tensor& mask, const Operand& v) { return t.masked_fill(mask, v); }, "mask"_a,
      "value"_a, doc("Tensor.masked_fill"));
  c.def(
      "lerp", [](const Tensor& t, const Tensor& end, const Operand& w) { return t.lerp(end, w); }, "end"_a,
      "weight"_a, doc("Tensor.lerp"));
  c.def(
      "isclose",
      [](const Tensor& t, const Operand& o, double rtol, double atol, bool nan) {
        return t.isclose(o, rtol, atol, nan);
      },
      "other"_a, "rtol"_a = 1e-5, "atol"_a = 1e-8, "equal_nan"_a = false, doc("Tensor.isclose"));
  c.def(
      "allclose",
      [](const Tensor& t, const Operand& o, double rtol, double atol, bool nan) {
        return released([&] { return t.allclose(o, rtol, atol, nan); });
      },
      "other"_a, "rtol"_a = 1e-5, "atol"_a = 1e-8, "equal_nan"_a = false, doc("Tensor.allclose"));
  for (const char* name : {"clamp", "clip"})
    c.def(
        name,
        [](const Tensor& t, nb::handle low, nb::handle high) {
          auto below = to_number(low), above = to_number(high);
          if ((low.is_none() || below) && (high.is_none() || above)) return t.clamp(below, above);
          std::optional<Tensor> a, b;
          if (!low.is_none()) a = to_tensor(low, t);
          if (!high.is_none()) b = to_tensor(high, t);
          return t.clamp(a ? &*a : nullptr, b ? &*b : nullptr);
        },
        "min_"_a.none() = nb::none(), "max_"_a.none() = nb::none(), doc(path(name)));
  c.def(
      "hardtanh", [](const Tensor& t, double low, double high) { return t.hardtanh(low, high); },
      "min_val"_a = -1, "max_val"_a = 1, doc("Tensor.hardtanh"));
  c.def(
      "leaky_relu", [](const Tensor& t, double slope) { return t.leaky_relu(slope); }, "neg_slope"_a = 0.01,
      doc("Tensor.leaky_relu"));
  c.def(
      "elu", [](const Tensor& t, double alpha) { return t.elu(alpha); }, "alpha"_a = 1.0, doc("Tensor.elu"));
  c.def(
      "celu", [](const Tensor& t, double alpha) { return t.celu(alpha); }, "alpha"_a = 1.0,
      doc("Tensor.celu"));
  c.def(
      "gelu", [](const Tensor& t, const std::string& how) { return t.gelu(how); }, "approximate"_a = "tanh",
      doc("Tensor.gelu"));
  c.def(
      "softplus", [](const Tensor& t, double beta, double threshold) { return t.softplus(beta, threshold); },
      "beta"_a = 1.0, "threshold"_a = 20.0, doc("Tensor.softplus"));
  c.def(
      "usum", [](const Tensor& t, nb::args others) { return t.usum(tensors_argument(others)); }, "others"_a,
      doc("Tensor.usum"));
  c.def(
      "uprod", [](const Tensor& t, nb::args others) { return t.uprod(tensors_argument(others)); }, "others"_a,
      doc("Tensor.uprod"));
}

}  // namespace lathe::python
