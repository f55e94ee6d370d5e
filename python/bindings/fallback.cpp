// The last form of every method: a call that fits none of the others goes to lathe.methods.words, which knows
// other names of arguments, further forms, and how to say what is wrong.
#include "bind.h"

namespace lathe::python {

void bind_fallback(TensorClass& c) {
  // The stub generator is shown the exact forms alone.
  if (nb::cast<bool>(nb::module_::import_("sys").attr("modules").attr("__contains__")("nanobind.stubgen")))
    return;
  const nb::handle kind = c.attr("sum").type();
  const nb::dict members =
      nb::cast<nb::dict>(nb::module_::import_("builtins").attr("dict")(c.attr("__dict__")));
  for (auto [key, value] : members) {
    const auto name = nb::cast<std::string>(key);
    if (!value.type().is(kind) || name.starts_with("__")) continue;
    c.def(name.c_str(), [name](nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
      return nb::object(nb::module_::import_("lathe.methods.words").attr("answer")(name, self, args, kwargs));
    });
  }
}

}  // namespace lathe::python
