// Symbolic sizes: Variable and the expressions over it.
#include "bind.h"
#include "lathe/size_compare.h"

namespace lathe::python {
namespace {

template <class C>
Size size_from(const C& c) {
  if constexpr (std::is_same_v<C, Variable>)
    return c.size();
  else
    return c.size;
}

std::int64_t least(const Size& s) { return -(Size(0) - s).max(); }

// Whether a < b under the values that are bound, or for all values where one is free.
bool less_than(const Size& a, const Size& b) {
  const Size difference = a - b;
  if (!difference.is_symbolic()) return difference.value() < 0;
  if (difference.max() < 0) return true;
  if (least(difference) >= 0) return false;
  throw UserError("size", a.str() + " < " + b.str() + " depends on the values of the variables")
      .help("bind them first");
}

// The operators, for variables and for expressions over them alike.
template <class C>
void bind_arithmetic(nb::class_<C>& c) {
#define LATHE_SIZE_OPERATOR(name, reflected, op)                                             \
  c.def(                                                                                     \
       name, [](const C& a, const Size& b) { return size_from(a) op b; }, nb::is_operator()) \
      .def(reflected, [](const C& a, const Size& b) { return b op size_from(a); }, nb::is_operator());
  LATHE_SIZE_OPERATOR("__add__", "__radd__", +)
  LATHE_SIZE_OPERATOR("__sub__", "__rsub__", -)
  LATHE_SIZE_OPERATOR("__mul__", "__rmul__", *)
  LATHE_SIZE_OPERATOR("__floordiv__", "__rfloordiv__", /)
  LATHE_SIZE_OPERATOR("__mod__", "__rmod__", %)
#undef LATHE_SIZE_OPERATOR
  c.def(
       "__lt__", [](const C& a, const Size& b) { return less_than(size_from(a), b); }, nb::is_operator())
      .def(
          "__gt__", [](const C& a, const Size& b) { return less_than(b, size_from(a)); }, nb::is_operator())
      .def(
          "__le__", [](const C& a, const Size& b) { return !less_than(b, size_from(a)); }, nb::is_operator())
      .def(
          "__ge__", [](const C& a, const Size& b) { return !less_than(size_from(a), b); }, nb::is_operator());
  c.def("__neg__", [](const C& a) { return Size(0) - size_from(a); })
      .def(
          "__eq__", [](const C& a, const Size& b) { return always_equal(size_from(a), b); },
          nb::is_operator())
      .def(
          "__ne__", [](const C& a, const Size& b) { return !always_equal(size_from(a), b); },
          nb::is_operator())
      .def("__hash__", [](const C&) { return 1; })  // equal ones may be written in many ways
      .def("__repr__", [](const C& a) { return size_from(a).str(); })
      .def("__int__", [](const C& a) { return size_from(a).bound_value(); })
      .def_prop_ro("val", [](const C& a) { return size_from(a).bound_value(); })
      .def("unbind", [](nb::handle self) {
        nb::object value = self.attr("val");
        return nb::make_tuple(self, value);
      });
}

}  // namespace

void bind_sizes(nb::module_& m) {
  nb::class_<PySize> size(m, "Size", doc("Size"));
  size.def_prop_ro("max", [](const PySize& s) { return s.size.max(); })
      .def_prop_ro("vmax", [](const PySize& s) { return s.size.max(); })
      .def_prop_ro("vmin", [](const PySize& s) { return least(s.size); });
  bind_arithmetic(size);
  nb::class_<Variable> variable(m, "Variable", doc("Variable"));
  variable.def(nb::init<std::string_view, std::int64_t, std::int64_t>(), "name"_a, "min"_a, "max"_a)
      .def("bind", &Variable::bind, "value"_a)
      .def_prop_ro("name", &Variable::name)
      .def_prop_ro("expr", &Variable::name)
      .def_prop_ro("min", &Variable::min)
      .def_prop_ro("max", &Variable::max)
      .def_prop_ro("vmin", &Variable::min)
      .def_prop_ro("vmax", &Variable::max);
  bind_arithmetic(variable);
}

}  // namespace lathe::python
