// The last form of every method: a call that fits none of the others goes to lathe.methods.words, which knows
// other names of arguments, further forms, and how to say what is wrong.
#include "bind.h"
#include "layers.h"

namespace lathe::python {
namespace {

// An argument that exists only where arguments may be converted. Forms are tried twice, at first without
// conversions (of an int to a float); a form that takes everything must wait for the second time.
struct Converting {};

}  // namespace

bool generating_stubs() {
  const nb::object argv = nb::getattr(nb::module_::import_("sys"), "argv", nb::list());
  return nb::len(argv) > 0 && nb::cast<std::string>(nb::str(argv[0])).ends_with("stubgen.py");
}

}  // namespace lathe::python

namespace nanobind::detail {

template <>
struct type_caster<lathe::python::Converting> {
  NB_TYPE_CASTER(lathe::python::Converting, const_name("object"))
  bool from_python(handle, uint32_t flags, cleanup_list*) noexcept {
    return (flags & static_cast<uint32_t>(cast_flags::convert)) != 0;
  }
};

}  // namespace nanobind::detail

namespace lathe::python {

void bind_fallback(TensorClass& c) {
  if (generating_stubs()) return;
  const nb::handle kind = c.attr("sum").type();
  const nb::dict members =
      nb::cast<nb::dict>(nb::module_::import_("builtins").attr("dict")(c.attr("__dict__")));
  for (auto [key, value] : members) {
    const auto name = nb::cast<std::string>(key);
    if (!value.type().is(kind) || name.starts_with("__")) continue;
    c.def(
        name.c_str(),
        [name](nb::handle self, const nb::args& args, Converting, const nb::kwargs& kwargs) {
          return nb::object(
              nb::module_::import_("lathe.methods.words").attr("answer")(name, self, args, kwargs));
        },
        "args"_a, "_converting"_a.none() = nb::none(), "kwargs"_a);
  }
}

}  // namespace lathe::python
