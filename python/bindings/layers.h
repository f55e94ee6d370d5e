// Binding layers from one list of fields a layer: each field is a Python attribute, readable and assignable,
// and part of what is pickled. A layer has its tensors as attributes and takes others, so Python classes can
// derive from it.
#pragma once

#include <functional>

#include "casters.h"
#include "lathe/nn/module.h"
#include "lathe/nn/parameters.h"

namespace lathe::python {

bool generating_stubs();  // the stub generator is shown the exact forms alone

// An argument of the constructor that takes everything: it is tried only where arguments may be converted,
// and not while a layer is made from arguments that were put right.
struct Unfitting {};
inline thread_local bool making_plainly = false;

}  // namespace lathe::python

namespace nanobind::detail {

template <>
struct type_caster<lathe::python::Unfitting> {
  NB_TYPE_CASTER(lathe::python::Unfitting, const_name("object"))
  bool from_python(handle, uint32_t flags, cleanup_list*) noexcept {
    return (flags & static_cast<uint32_t>(cast_flags::convert)) != 0 && !lathe::python::making_plainly;
  }
};

}  // namespace nanobind::detail

namespace lathe::python {

template <class L>
struct Field {
  std::string name;
  std::function<nb::object(L&, nb::handle self)> get;
  std::function<void(L&, nb::handle value)> set;
};

// A tensor that may be missing: None.
template <class L, class C>
Field<L> tensor_field(const char* name, Tensor C::* member) {
  return {name, [member](L& layer, nb::handle) { return wrap(layer.*member); },
          [member, name](L& layer, nb::handle value) {
            if (!value.is_none() && !nb::isinstance<PyTensor>(value))
              throw TypeError(name, "a tensor or None is needed");
            layer.*member = value.is_none() ? Tensor() : Tensor(*nb::inst_ptr<PyTensor>(value));
            if (!value.is_none()) nn::remember_parameter(layer.*member);
          }};
}
// A number, or whatever else is copied.
template <class L, class C, class V>
Field<L> value_field(const char* name, V C::* member) {
  return {name, [member](L& layer, nb::handle) { return nb::cast(layer.*member); },
          [member](L& layer, nb::handle value) { layer.*member = nb::cast<V>(value); }};
}
// A number inside an options struct.
template <class L, class C, class O, class V>
Field<L> option_field(const char* name, O C::* options, V O::* member) {
  return {name, [=](L& layer, nb::handle) { return nb::cast((layer.*options).*member); },
          [=](L& layer, nb::handle value) { (layer.*options).*member = nb::cast<V>(value); }};
}
// A layer inside a layer.
template <class L, class C, class Inner>
Field<L> layer_field(const char* name, Inner C::* member) {
  return {name,
          [member](L& layer, nb::handle self) {
            return nb::cast(&(layer.*member), nb::rv_policy::reference_internal, self);
          },
          [member](L& layer, nb::handle value) { layer.*member = nb::cast<const Inner&>(value); }};
}
template <class L, class C, class Inner>
Field<L> layers_field(const char* name, std::vector<Inner> C::* member) {
  return {name,
          [member](L& layer, nb::handle self) {
            nb::list out;
            for (Inner& inner : layer.*member)
              out.append(nb::cast(&inner, nb::rv_policy::reference_internal, self));
            return nb::object(out);
          },
          [member](L& layer, nb::handle value) {
            std::vector<Inner> all;
            for (nb::handle h : nb::borrow(value)) all.push_back(nb::cast<const Inner&>(h));
            layer.*member = std::move(all);
          }};
}

// Defines the fields as attributes, and pickling from them. `blank` makes a layer whose fields are then set.
template <class L, class Class>
void bind_fields(Class& c, std::vector<Field<L>> list, std::function<L()> blank) {
  auto fields = std::make_shared<std::vector<Field<L>>>(std::move(list));
  for (const Field<L>& field : *fields)
    c.def_prop_rw(
        field.name.c_str(), [get = field.get](nb::handle self) { return get(nb::cast<L&>(self), self); },
        [set = field.set](L& layer, nb::handle value) { set(layer, value); },
        nb::for_setter(nb::arg().none()));
  c.def("__getstate__", [fields](nb::handle self) {
    nb::dict state;
    for (const Field<L>& field : *fields) state[field.name.c_str()] = field.get(nb::cast<L&>(self), self);
    return nb::make_tuple(state, self.attr("__dict__"));
  });
  c.def("__setstate__", [fields, blank](nb::pointer_and_handle<L> self, nb::tuple state) {
    L made = blank();
    nb::dict values = nb::cast<nb::dict>(state[0]);
    for (const Field<L>& field : *fields) field.set(made, values[field.name.c_str()]);
    self.h.attr("__dict__").attr("update")(state[1]);
    new (self.p) L(std::move(made));  // last: an object whose making raised is freed without its destructor
  });
}

// The class of a layer with its fields.
template <class L>
nb::class_<L, nn::Module> layer(nb::module_& m, const char* name, std::vector<Field<L>> fields,
                                std::function<L()> blank) {
  nb::class_<L, nn::Module> c(m, name, nb::dynamic_attr(), doc(std::string("nn.") + name));
  bind_fields<L>(c, std::move(fields), [blank] {
    const nn::UninitializedScope scope;
    return blank();
  });
  // Arguments under PyTorch's names, a device or a dtype, and what is wrong in words: lathe.nn.native.
  if (!generating_stubs())
    c.def(
        "__init__",
        [kind = nb::handle(c)](nb::pointer_and_handle<L> self, const nb::args& args, Unfitting,
                               const nb::kwargs& kwargs) {
          const nb::object made =
              nb::module_::import_("lathe.nn.native").attr("construct")(kind, args, kwargs);
          self.h.attr("__dict__").attr("update")(made.attr("__dict__"));
          new (self.p) L(nb::cast<const L&>(made));  // last, as above
        },
        "args"_a, "_unfitting"_a.none() = nb::none(), "kwargs"_a);
  return c;
}

}  // namespace lathe::python
