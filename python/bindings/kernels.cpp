// What a tensor's computation will run, and kernels written by hand.
#include "bind.h"
#include "lathe/kernel.h"
#include "released.h"

namespace lathe::python {
namespace {

// A value of a kernel, or a number.
KernelValue value_of(nb::handle h) {
  if (nb::isinstance<KernelValue>(h)) return *nb::inst_ptr<KernelValue>(h);
  if (PyBool_Check(h.ptr())) return KernelValue(h.ptr() == Py_True);
  if (PyLong_Check(h.ptr())) return KernelValue(nb::cast<std::int64_t>(h));
  if (PyFloat_Check(h.ptr())) return KernelValue(nb::cast<double>(h));
  throw TypeError("custom_kernel",
                  "a value of the kernel or a number is needed, not " + nb::cast<std::string>(nb::repr(h)));
}

std::optional<KernelValue> gate_of(nb::handle h) {
  return h.is_none() ? std::nullopt : std::optional(value_of(h));
}

using V = KernelValue;
struct Operator {
  const char *name, *reflected;
  V (*apply)(const V& x, const V& y);
};
constexpr Operator kOperators[] = {
    {"__add__", "__radd__", [](const V& x, const V& y) { return x + y; }},
    {"__sub__", "__rsub__", [](const V& x, const V& y) { return x - y; }},
    {"__mul__", "__rmul__", [](const V& x, const V& y) { return x * y; }},
    {"__truediv__", "__rtruediv__", V::true_div},
    {"__floordiv__", "__rfloordiv__", V::floor_div},
    {"__mod__", "__rmod__", V::floor_mod},
    {"__and__", "__rand__", [](const V& x, const V& y) { return x & y; }},
    {"__or__", "__ror__", [](const V& x, const V& y) { return x | y; }},
    {"__xor__", "__rxor__", [](const V& x, const V& y) { return x ^ y; }},
    {"__lt__", "__gt__", [](const V& x, const V& y) { return x < y; }},
    {"__eq__", nullptr, [](const V& x, const V& y) { return x == y; }},
    {"__ne__", nullptr, [](const V& x, const V& y) { return x != y; }},
};

void bind_values(nb::module_& m) {
  nb::class_<KernelValue> c(m, "KernelValue", doc("KernelValue"));
  for (const Operator& row : kOperators) {
    c.def(row.name, [op = row.apply](const V& x, nb::handle y) { return op(x, value_of(y)); });
    if (row.reflected != nullptr)
      c.def(row.reflected, [op = row.apply](const V& x, nb::handle y) { return op(value_of(y), x); });
  }
  c.def("cast", [](const KernelValue& x, DataType dtype) { return x.cast(dtype); }, "dtype"_a);
  c.def(
      "where",
      [](const KernelValue& x, nb::handle yes, nb::handle no) {
        return x.where(value_of(yes), value_of(no));
      },
      "yes"_a, "no"_a);
  c.def_static(
      "apply",
      [](const std::string& op, nb::args operands) {
        std::vector<KernelValue> all;
        for (nb::handle h : operands) all.push_back(value_of(h));
        return KernelValue::apply(op, all);
      },
      "op"_a, "operands"_a);
  nb::class_<KernelBuilder>(m, "KernelBuilder", doc("KernelBuilder"))
      .def("range", &KernelBuilder::range, "extent"_a)
      .def("reduce_range", &KernelBuilder::reduce_range, "extent"_a)
      .def(
          "load",
          [](KernelBuilder& k, std::size_t tensor, nb::handle index, nb::handle gate) {
            return k.load(tensor, value_of(index), gate_of(gate));
          },
          "tensor"_a, "index"_a, "gate"_a.none() = nb::none())
      .def(
          "reduce",
          [](KernelBuilder& k, const std::string& op, nb::handle element, nb::args ranges) {
            std::vector<KernelValue> all;
            for (nb::handle h : ranges) all.push_back(value_of(h));
            return k.reduce(op, value_of(element), all);
          },
          "op"_a, "element"_a, "ranges"_a)
      .def(
          "store",
          [](KernelBuilder& k, std::size_t tensor, nb::handle index, nb::handle value, nb::handle gate) {
            k.store(tensor, value_of(index), value_of(value), gate_of(gate));
          },
          "tensor"_a, "index"_a, "value"_a, "gate"_a.none() = nb::none());
}

}  // namespace

void bind_kernels(nb::module_& m, TensorClass& c) {
  nb::class_<ScheduledKernel>(m, "ScheduledKernel", doc("ScheduledKernel"))
      .def_ro("name", &ScheduledKernel::name)
      .def_ro("device", &ScheduledKernel::device)
      .def_ro("options", &ScheduledKernel::options)
      .def_ro("origin", &ScheduledKernel::origin)
      .def_ro("text", &ScheduledKernel::text)
      .def_ro("flops", &ScheduledKernel::flops)
      .def_ro("bytes", &ScheduledKernel::bytes)
      .def_prop_ro("is_copy", &ScheduledKernel::is_copy)
      .def("__repr__",
           [](const ScheduledKernel& k) { return "<" + k.name + " on " + k.device + " " + k.options + ">"; });
  bind_values(m);
  c.def(
      "schedule",
      [](const Tensor& t, nb::args others) {
        std::vector<Tensor> all = {t};
        for (const Tensor& other : tensors_argument(others)) all.push_back(other);
        return released([&] { return Tensor::schedule_all(all); });
      },
      "others"_a, doc("Tensor.schedule"));
  c.def(
      "kernelize",
      [](nb::handle self, nb::args others) {
        std::vector<Tensor> all = {nb::cast<Tensor&>(self)};
        for (const Tensor& other : tensors_argument(others)) all.push_back(other);
        released([&] {
          for (Tensor& t : all) t.kernelize();
        });
        return nb::borrow(self);
      },
      "others"_a, doc("Tensor.kernelize"));
  c.def(
      "custom_kernel",
      [](const Tensor& t, nb::args others, nb::callable fxn, const std::string& name,
         std::optional<std::string> options) {
        std::vector<Tensor> all = {t};
        for (const Tensor& other : tensors_argument(others)) all.push_back(other);
        CustomKernelOptions o;
        o.name = name;
        if (options) o.options = parse_opts(*options);
        return custom_kernel(all, [&](KernelBuilder& k) { fxn(nb::cast(k, nb::rv_policy::copy)); }, o);
      },
      "others"_a, "fxn"_a, "name"_a = "custom", "options"_a.none() = nb::none(), doc("Tensor.custom_kernel"));
}

}  // namespace lathe::python
