// Dtypes and promotion.
#include "bind.h"

namespace lathe::python {
namespace {

nb::tuple group(std::span<const DataType> members) {
  nb::list out;
  for (DataType d : members) out.append(nb::borrow(dtype_object(d)));
  return nb::tuple(out);
}

DataType checked(nb::handle h) {
  auto d = to_dtype(h);
  if (!d)
    throw TypeError("dtype", "a dtype or its name is needed, not " + nb::cast<std::string>(nb::repr(h)));
  return *d;
}

}  // namespace

void bind_dtypes(nb::module_& m) {
  nb::class_<PyDType>(m, "DType", doc("DType"))
      .def_prop_ro("name", [](const PyDType& d) { return std::string(d.dtype.name()); })
      .def_prop_ro("itemsize", [](const PyDType& d) { return d.dtype.itemsize(); })
      .def_prop_ro("bitsize", [](const PyDType& d) { return d.dtype.bitsize(); })
      .def_prop_ro("fmt",
                   [](const PyDType& d) -> nb::object {
                     const char fmt = d.dtype.fmt();
                     if (fmt == 0) return nb::none();
                     return nb::str(&fmt, 1);
                   })
      .def_prop_ro("min", [](const PyDType& d) { return dtypes::min(d.dtype); })
      .def_prop_ro("max", [](const PyDType& d) { return dtypes::max(d.dtype); })
      .def_prop_ro("is_float", [](const PyDType& d) { return d.dtype.is_float(); })
      .def_prop_ro("priority", [](const PyDType& d) { return static_cast<int>(d.dtype.scalar); })
      .def("__repr__", [](const PyDType& d) { return "dtypes." + std::string(d.dtype.name()); })
      .def(
          "__eq__",
          [](const PyDType& a, nb::handle b) {
            return nb::isinstance<PyDType>(b) && nb::inst_ptr<PyDType>(b)->dtype == a.dtype;
          },
          "other"_a.none())
      .def("__hash__", [](const PyDType& d) { return static_cast<int>(d.dtype.scalar); })
      .def("__lt__", [](const PyDType& a, const PyDType& b) { return a.dtype < b.dtype; })
      .def("__gt__", [](const PyDType& a, const PyDType& b) { return b.dtype < a.dtype; })
      .def("__le__", [](const PyDType& a, const PyDType& b) { return !(b.dtype < a.dtype); })
      .def("__ge__", [](const PyDType& a, const PyDType& b) { return !(a.dtype < b.dtype); })
      .def("scalar", [](nb::handle self) { return nb::borrow(self); })
      .def("__reduce__", [](nb::handle self) {
        nb::object parse = nb::module_::import_("lathe.dtype").attr("_named");
        return nb::make_tuple(parse, nb::make_tuple(self.attr("name")));
      });
  m.def("parse_dtype", [](const std::string& name) { return dtypes::parse(name); });
  m.def("to_dtype", [](nb::handle h) { return checked(h); });
  m.def("default_float", [] { return dtypes::default_float(); });
  m.def("default_int", [] { return dtypes::default_int(); });
  m.def("set_default_float", [](nb::handle d) { dtypes::set_default_float(checked(d)); });
  m.def("set_default_int", [](nb::handle d) { dtypes::set_default_int(checked(d)); });
  m.def("finfo", [](DataType d) {
    const dtypes::FloatInfo f = dtypes::finfo(d);
    return nb::make_tuple(f.exponent_bits, f.mantissa_bits, f.max, f.eps, f.smallest_normal);
  });
  m.def("least_upper_dtype", [](nb::args args) {
    nb::object flat = nb::borrow(args);
    std::optional<DataType> out;
    for (nb::handle h : flat) out = out ? least_upper_dtype(*out, checked(h)) : checked(h);
    if (!out) throw UserError("least_upper_dtype", "no dtypes were given");
    return *out;
  });
  m.def("least_upper_float", [](nb::handle d) { return least_upper_float(checked(d)); });
  m.def("sum_acc_dtype", [](nb::handle d) { return sum_accumulator(checked(d)); });
  nb::dict groups;
  groups["all"] = group(dtypes::all());
  groups["floats"] = group(dtypes::floats());
  groups["ints"] = group(dtypes::ints());
  groups["sints"] = group(dtypes::sints());
  groups["uints"] = group(dtypes::uints());
  groups["fp8s"] = group(dtypes::fp8s());
  m.attr("dtype_groups") = groups;
}

}  // namespace lathe::python
