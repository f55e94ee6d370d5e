// The Tensor class itself: making one, its properties, gradients, identity and pickling.
#include <cmath>

#include "arrays.h"
#include "bind.h"
#include "lathe/dev/handles.h"
#include "lathe/modes.h"
#include "lathe/nn/parameters.h"
#include "released.h"

namespace lathe::python {
namespace {

void construct(nb::pointer_and_handle<PyTensor> self, nb::handle data, nb::handle device, nb::handle dtype,
               std::optional<bool> requires_grad) {
  TensorOptions options{.dtype = std::nullopt, .device = device_argument(device)};
  if (!dtype.is_none()) {
    options.dtype = to_dtype(dtype);
    if (!options.dtype)
      throw TypeError("tensor",
                      "a dtype or its name is needed, not " + nb::cast<std::string>(nb::repr(dtype)));
  }
  Tensor t = make_tensor(data, options);
  // An object of its own even where the handle has one already: assigning to it stays visible in both.
  if (t.front() != nullptr) t = dev::other_handle(t);
  if (requires_grad) t.requires_grad_(*requires_grad);
  // Last, because nothing may throw once there is a PyTensor: Python frees the memory of an object whose
  // __init__ raised, and nobody would take the tensor out of its list.
  new (self.p) PyTensor(t);
  t.set_front(self.h.ptr());
}

// The list of tensors that may get a gradient from backward().
std::vector<Tensor> candidates() {
  std::vector<Tensor> out;
  for (PyTensor* t = newest_tensor(); t != nullptr; t = t->before)
    if (t->defined() && t->grad_wish() != std::optional(false)) out.push_back(*t);
  for (const Tensor& t : nn::remembered_parameters())  // those without a Python object now
    if (t.front() == nullptr && t.grad_wish() != std::optional(false)) out.push_back(t);
  return out;
}

nb::object pickled(const Tensor& t) {
  const std::vector<std::byte> bytes = released([&] { return t.bytes(); });
  nb::object rebuild = nb::module_::import_("lathe.tensor").attr("_rebuild");
  nb::bytes data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::optional<bool> wish = t.grad_wish();
  nb::object wished = wish ? nb::object(nb::cast(*wish)) : nb::object(nb::none());
  // What is in a file would be written to that file; it becomes a tensor in memory.
  const std::string device = t.device().starts_with("DISK:") ? "" : t.device();
  return nb::make_tuple(rebuild, nb::make_tuple(data, nb::cast(t.shape()),
                                                nb::borrow(dtype_object(t.dtype())), device, wished));
}

}  // namespace

TensorClass bind_tensor(nb::module_& m) {
  TensorClass c(m, "Tensor", nb::is_weak_referenceable(), nb::type_slots(tensor_slots()), doc("Tensor"));
  c.def("__init__", construct, "data"_a.none() = nb::none(), "device"_a.none() = nb::none(),
        "dtype"_a.none() = nb::none(), "requires_grad"_a.none() = nb::none());

  // ---- properties
  c.def_prop_ro("shape", [](const Tensor& t) { return t.shape(); }, doc("Tensor.shape"));
  c.def_prop_ro("dtype", [](const Tensor& t) { return t.dtype(); }, doc("Tensor.dtype"));
  c.def_prop_ro("device", [](const Tensor& t) { return t.device(); }, doc("Tensor.device"));
  c.def_prop_ro("ndim", [](const Tensor& t) { return t.ndim(); }, doc("Tensor.ndim"));
  c.def_prop_ro("T", [](const Tensor& t) { return t.T(); }, doc("Tensor.T"));
  c.def("numel", [](const Tensor& t) { return t.numel(); }, doc("Tensor.numel"));
  c.def(
      "size",
      [](const Tensor& t, std::optional<std::int64_t> dim) -> nb::object {
        return dim ? nb::cast(t.size(*dim)) : nb::cast(t.shape());
      },
      "dim"_a.none() = nb::none(), doc("Tensor.size"));
  c.def("element_size", [](const Tensor& t) { return t.element_size(); }, doc("Tensor.element_size"));
  c.def("nbytes", [](const Tensor& t) { return t.nbytes(); }, doc("Tensor.nbytes"));
  c.def(
      "is_floating_point", [](const Tensor& t) { return t.is_floating_point(); },
      doc("Tensor.is_floating_point"));
  c.def_prop_ro("is_realized", [](const Tensor& t) { return t.is_realized(); }, doc("Tensor.is_realized"));
  c.def("__len__", [](const Tensor& t) {
    if (t.ndim() == 0) throw nb::type_error("len() of a 0-d tensor");
    return t.shape()[0].value();
  });
  c.def("__bool__", [](const Tensor& t) -> bool {
    if (!t.numel().is_symbolic() && t.numel() == 1) return released([&] { return t.item() != 0; });
    throw TypeError("bool", "a tensor of shape " + to_string(t.shape()) + " is neither true nor false")
        .help("ask for one value: t.any(), t.all(), or an element");
  });
  c.def("__float__", [](nb::handle self) { return nb::steal(PyNumber_Float(self.attr("item")().ptr())); });
  c.def("__int__", [](nb::handle self) { return nb::steal(PyNumber_Long(self.attr("item")().ptr())); });
  c.def("__hash__", [](const Tensor& t) { return reinterpret_cast<std::intptr_t>(t.impl().get()) >> 4; });

  // ---- gradients
  c.def_prop_rw(
      "grad", [](const Tensor& t) { return t.grad(); },
      [](Tensor& t, std::optional<Tensor> grad) { t.set_grad(std::move(grad)); },
      nb::for_setter(nb::arg().none()), doc("Tensor.grad"));
  c.def_prop_rw(
      "requires_grad", [](const Tensor& t) { return t.grad_wish(); },
      [](Tensor& t, std::optional<bool> on) {
        if (on) t.requires_grad_(*on);
      },
      nb::for_setter(nb::arg().none()), doc("Tensor.requires_grad"));
  c.def(
      "requires_grad_",
      [](nb::handle self, bool on) {
        nb::cast<Tensor&>(self).requires_grad_(on);
        return nb::borrow(self);
      },
      "requires_grad"_a = true, doc("Tensor.requires_grad_"));
  c.def_prop_rw(
      "is_param", [](const Tensor& t) { return t.grad_wish() != std::optional(false); },
      [](Tensor& t, bool on) {
        if (!on || t.grad_wish()) t.requires_grad_(on);
      },
      doc("Tensor.is_param"));
  c.def(
      "is_param_",
      [](nb::handle self, bool on) {
        self.attr("is_param") = on;
        return nb::borrow(self);
      },
      "is_param"_a = true, doc("Tensor.is_param_"));
  c.def_prop_ro("is_leaf", [](const Tensor& t) { return t.is_leaf(); }, doc("Tensor.is_leaf"));
  c.def(
      "backward",
      [](nb::handle self, const Tensor* gradient) {
        nb::cast<const Tensor&>(self).backward(gradient, candidates());
        return nb::borrow(self);
      },
      "gradient"_a.none() = nb::none(), doc("Tensor.backward"));
  c.def(
      "gradient",
      [](const Tensor& t, nb::args targets, const Tensor* gradient) {
        return t.gradient(tensors_argument(targets), gradient);
      },
      "targets"_a, "gradient"_a.none() = nb::none(), doc("Tensor.gradient"));

  // ---- pickling
  c.def("__reduce__", pickled);
  m.def(
      "rebuild_tensor",
      [](nb::handle data, const Shape& shape, DataType dtype, const std::string& device,
         std::optional<bool> wish) {
        Py_buffer view;
        if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_SIMPLE) != 0) nb::raise_python_error();
        const auto held =
            nb::capsule(&view, [](void* v) noexcept { PyBuffer_Release(static_cast<Py_buffer*>(v)); });
        Tensor t = Tensor::from_bytes(view.buf, static_cast<std::size_t>(view.len), shape, dtype, device);
        if (wish) t.requires_grad_(*wish);
        return t;
      },
      "data"_a, "shape"_a, "dtype"_a, "device"_a, "requires_grad"_a.none());

  // ---- of the class
  c.def_prop_rw_static(
      "training", [](nb::handle) { return Tensor::training(); },
      [](nb::handle, bool on) { set_training(on); }, doc("Tensor.training"));
  c.def_static(
      "manual_seed", [](std::uint64_t seed) { Tensor::manual_seed(seed); }, "seed"_a = 0,
      doc("Tensor.manual_seed"));
  m.def("set_options", [](Tensor& t, const std::string& options) { t.set_options(options); });
  return c;
}

}  // namespace lathe::python
