// User-defined ops with Python functions behind them.
#include "bind.h"
#include "lathe/gradient_hook.h"

namespace lathe::python {

void bind_custom(nb::module_& m) {
  m.def(
      "register_op",
      [](const std::string& name, nb::object forward, nb::object gradient) {
        // Never released: the registry outlives the interpreter.
        PyObject* f = forward.release().ptr();
        PyObject* g = gradient.is_none() ? nullptr : gradient.release().ptr();
        CustomOp op;
        op.name = name;
        op.forward = [f](const std::vector<Tensor>& inputs) {
          nb::gil_scoped_acquire acquire;
          nb::list arguments;
          for (const Tensor& t : inputs) arguments.append(t);
          return nb::cast<Tensor>(nb::borrow(f)(*nb::tuple(arguments)));
        };
        if (g != nullptr)
          op.gradient = [g](const std::vector<Tensor>& inputs, const Tensor& output, const Tensor& grad) {
            nb::gil_scoped_acquire acquire;
            std::vector<Tensor> out;
            for (nb::handle h : nb::borrow(g)(inputs, output, grad))
              out.push_back(h.is_none() ? Tensor() : nb::cast<Tensor>(h));
            return out;
          };
        register_op(std::move(op));
      },
      "name"_a, "forward"_a, "gradient"_a.none() = nb::none());
  m.def(
      "add_gradient_hook",
      [](Tensor& t, nb::object hook) {
        // It may die on any thread.
        const std::shared_ptr<PyObject> held(hook.release().ptr(), [](PyObject* object) {
          nb::gil_scoped_acquire acquire;
          Py_DECREF(object);
        });
        return add_gradient_hook(t, [held](const Tensor& grad) {
          nb::gil_scoped_acquire acquire;
          const nb::object given = nb::borrow(held.get())(grad);
          return given.is_none() ? Tensor() : nb::cast<Tensor>(given);
        });
      },
      "tensor"_a, "hook"_a);
  m.def("remove_gradient_hook", &remove_gradient_hook, "number"_a);
  m.def(
      "custom",
      [](const std::string& name, const std::vector<Tensor>& inputs) { return custom(name, inputs); },
      "name"_a, "inputs"_a);
}

}  // namespace lathe::python
