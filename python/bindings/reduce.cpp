// Reductions and scans.
#include "bind.h"

namespace lathe::python {
namespace {

// axis=() reduces nothing, unlike None: it becomes a reduce of an axis of size 1 that is put behind.
struct Reduced {
  Reduced(const Tensor& t, nb::handle axis, bool keep) : tensor(t), keepdim(keep) {
    const bool none_of_them = (PyTuple_Check(axis.ptr()) && PyTuple_GET_SIZE(axis.ptr()) == 0) ||
                              (PyList_Check(axis.ptr()) && PyList_GET_SIZE(axis.ptr()) == 0);
    if (none_of_them) {
      tensor = t.unsqueeze(-1);
      axes = Ints(-1);
      keepdim = false;
    } else if (nb::isinstance<PyTensor>(axis) || PyBool_Check(axis.ptr())) {
      throw nb::next_overload();  // the other operand of PyTorch's max(other), its var(unbiased)
    } else if (!nb::try_cast(axis, axes)) {
      throw TypeError("reduce", "an axis is an integer, a sequence of them or None, not " +
                                    nb::cast<std::string>(nb::repr(axis)));
    }
  }
  Tensor tensor;
  Ints axes;
  bool keepdim;
};

using Plain = Tensor (Tensor::*)(const Ints&, bool) const;
using Typed = Tensor (Tensor::*)(const Ints&, bool, std::optional<DataType>) const;
using Corrected = Tensor (Tensor::*)(const Ints&, bool, std::int64_t) const;
using Pair = std::pair<Tensor, Tensor> (Tensor::*)(const Ints&, bool, std::int64_t) const;
using Chosen = Tensor (Tensor::*)(std::optional<std::int64_t>, bool) const;
using Scan = Tensor (Tensor::*)(std::int64_t) const;

template <class M>
struct Method {
  const char *name, *path;
  M method;
};

constexpr Method<Plain> kPlain[] = {
    {"max", "Tensor.max", &Tensor::max},    {"min", "Tensor.min", &Tensor::min},
    {"mean", "Tensor.mean", &Tensor::mean}, {"any", "Tensor.any", &Tensor::any},
    {"all", "Tensor.all", &Tensor::all},    {"logsumexp", "Tensor.logsumexp", &Tensor::logsumexp}};
constexpr Method<Typed> kTyped[] = {{"sum", "Tensor.sum", &Tensor::sum},
                                    {"prod", "Tensor.prod", &Tensor::prod}};
constexpr Method<Corrected> kCorrected[] = {{"var", "Tensor.var", &Tensor::var},
                                            {"std", "Tensor.std", &Tensor::std}};
constexpr Method<Pair> kPairs[] = {{"var_mean", "Tensor.var_mean", &Tensor::var_mean},
                                   {"std_mean", "Tensor.std_mean", &Tensor::std_mean}};
constexpr Method<Chosen> kChosen[] = {{"argmax", "Tensor.argmax", &Tensor::argmax},
                                      {"argmin", "Tensor.argmin", &Tensor::argmin}};
constexpr Method<Scan> kScans[] = {{"cumsum", "Tensor.cumsum", &Tensor::cumsum},
                                   {"cumprod", "Tensor.cumprod", &Tensor::cumprod},
                                   {"logcumsumexp", "Tensor.logcumsumexp", &Tensor::logcumsumexp}};

}  // namespace

void bind_reduce(TensorClass& c) {
  for (const auto& row : kPlain)
    c.def(
        row.name,
        [m = row.method](const Tensor& t, nb::handle axis, bool keepdim) {
          const Reduced r(t, axis, keepdim);
          return (r.tensor.*m)(r.axes, r.keepdim);
        },
        "axis"_a.none() = nb::none(), "keepdim"_a = false, doc(row.path));
  for (const auto& row : kTyped)
    c.def(
        row.name,
        [m = row.method](const Tensor& t, nb::handle axis, bool keepdim, std::optional<DataType> dtype) {
          const Reduced r(t, axis, keepdim);
          return (r.tensor.*m)(r.axes, r.keepdim, dtype);
        },
        "axis"_a.none() = nb::none(), "keepdim"_a = false, "dtype"_a.none() = nb::none(), doc(row.path));
  for (const auto& row : kCorrected)
    c.def(
        row.name,
        [m = row.method](const Tensor& t, nb::handle axis, bool keepdim, std::int64_t correction) {
          const Reduced r(t, axis, keepdim);
          return (r.tensor.*m)(r.axes, r.keepdim, correction);
        },
        "axis"_a.none() = nb::none(), "keepdim"_a = false, "correction"_a = 1, doc(row.path));
  for (const auto& row : kPairs)
    c.def(
        row.name,
        [m = row.method](const Tensor& t, nb::handle axis, bool keepdim, std::int64_t correction) {
          const Reduced r(t, axis, keepdim);
          return (r.tensor.*m)(r.axes, r.keepdim, correction);
        },
        "axis"_a.none() = nb::none(), "keepdim"_a = false, "correction"_a = 1, doc(row.path));
  for (const auto& row : kChosen)
    c.def(
        row.name,
        [m = row.method](const Tensor& t, std::optional<std::int64_t> axis, bool keepdim) {
          return (t.*m)(axis, keepdim);
        },
        "axis"_a.none() = nb::none(), "keepdim"_a = false, doc(row.path));
  for (const auto& row : kScans)
    c.def(
        row.name, [m = row.method](const Tensor& t, std::int64_t axis) { return (t.*m)(axis); }, "axis"_a = 0,
        doc(row.path));
  c.def(
      "cummax", [](const Tensor& t, std::int64_t axis) { return t.cummax(axis); }, "axis"_a = 0,
      doc("Tensor.cummax"));
  c.def(
      "cummin", [](const Tensor& t, std::int64_t axis) { return t.cummin(axis); }, "axis"_a = 0,
      doc("Tensor.cummin"));
  c.def(
      "softmax",
      [](const Tensor& t, std::int64_t axis, std::optional<DataType> d) { return t.softmax(axis, d); },
      "axis"_a = -1, "dtype"_a.none() = nb::none(), doc("Tensor.softmax"));
  c.def(
      "log_softmax",
      [](const Tensor& t, std::int64_t axis, std::optional<DataType> d) { return t.log_softmax(axis, d); },
      "axis"_a = -1, "dtype"_a.none() = nb::none(), doc("Tensor.log_softmax"));
  c.def(
      "softmin",
      [](const Tensor& t, std::int64_t axis, std::optional<DataType> d) { return t.softmin(axis, d); },
      "axis"_a = -1, "dtype"_a.none() = nb::none(), doc("Tensor.softmin"));
  c.def(
      "normalize",
      [](const Tensor& t, double p, std::int64_t dim, double eps) { return t.normalize(p, dim, eps); },
      "p"_a = 2.0, "dim"_a = 1, "eps"_a = 1e-12, doc("Tensor.normalize"));
}

}  // namespace lathe::python
