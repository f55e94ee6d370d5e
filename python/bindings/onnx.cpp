// ONNX models (lathe/onnx.h). Values pass as tensors, lists (sequences), None, and (shape, strings) pairs.
#include <nanobind/stl/map.h>

#include "bind.h"
#include "lathe/onnx.h"
#include "paths.h"
#include "released.h"

namespace lathe::python {
namespace {

onnx::Value value_of(nb::handle given) {
  if (given.is_none()) return {};
  if (nb::isinstance<PyTensor>(given)) return static_cast<const Tensor&>(*nb::inst_ptr<PyTensor>(given));
  if (PyTuple_Check(given.ptr())) {
    const auto pair = nb::cast<nb::tuple>(given);
    return onnx::Strings{nb::cast<std::vector<std::int64_t>>(pair[0]),
                         nb::cast<std::vector<std::string>>(pair[1])};
  }
  if (!PyList_Check(given.ptr()))
    throw TypeError("onnx", "an input is a tensor, a list of tensors, strings or None");
  onnx::Value::Items items;
  for (nb::handle item : nb::cast<nb::list>(given)) items.push_back(value_of(item));
  return items;
}

nb::object python_of(const onnx::Value& value) {
  switch (value.kind()) {
    case onnx::Value::Kind::None: return nb::none();
    case onnx::Value::Kind::Tensor: return nb::cast(value.tensor());
    case onnx::Value::Kind::Strings: {
      nb::list texts;  // strings of a file need not be text
      for (const std::string& s : value.strings().values)
        texts.append(nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace")));
      return nb::make_tuple(nb::cast(value.strings().shape), texts);
    }
    case onnx::Value::Kind::Sequence: {
      nb::list items;
      for (const onnx::Value& item : value.items()) items.append(python_of(item));
      return items;
    }
  }
  return nb::none();
}

onnx::Values values_of(const nb::dict& given) {
  onnx::Values values;
  for (auto [name, value] : given) values[nb::cast<std::string>(name)] = value_of(value);
  return values;
}

nb::dict run(onnx::Runner& runner, const nb::dict& given) {
  const onnx::Values inputs = values_of(given);
  const onnx::Values outputs = made_here([&] { return runner(inputs); });
  nb::dict out;
  for (const onnx::Port& port : runner.summary().outputs)
    out[port.name.c_str()] = python_of(outputs.at(port.name));
  return out;
}

nb::list ports_of(const std::vector<onnx::Port>& ports) {
  nb::list all;
  for (const onnx::Port& p : ports)
    all.append(nb::make_tuple(p.name, p.type, p.has_shape ? nb::cast(p.dims) : nb::none()));
  return all;
}

nb::dict summary(const onnx::Runner& runner) {
  const onnx::Summary& s = runner.summary();
  nb::dict out;
  out["producer"] = s.producer;
  out["ir_version"] = s.ir_version;
  out["opsets"] = nb::cast(s.opsets);
  out["inputs"] = ports_of(s.inputs);
  out["outputs"] = ports_of(s.outputs);
  out["ops"] = nb::cast(s.ops);
  out["nodes"] = s.nodes;
  out["parameters"] = s.parameters;
  out["parameter_bytes"] = s.parameter_bytes;
  return out;
}

void make(onnx::Runner* memory, nb::handle file, const std::string& device, bool capture,
          const std::map<std::string, std::int64_t>& symbolic) {
  const state::Bytes bytes = bytes_of(file);
  made_in_place(memory,
                [&](onnx::Runner* at) { return new (at) onnx::Runner(bytes, {device, capture, symbolic}); });
}

}  // namespace

void bind_onnx(nb::module_& m) {
  nb::class_<onnx::Runner>(m, "OnnxModel", "An ONNX model; lathe.nn.onnx.OnnxRunner is made of one.")
      .def("__init__", make, nb::arg("file"), nb::arg("device"), nb::arg("capture"), nb::arg("symbolic"))
      .def("run", run, nb::arg("inputs"))
      .def("summary", summary)
      .def(
          "kernels",
          [](onnx::Runner& r, const nb::dict& given) {
            const onnx::Values inputs = values_of(given);
            return made_here([&] { return r.schedule(inputs).size(); });
          },
          nb::arg("inputs"))
      .def_prop_ro("replayed", &onnx::Runner::replayed);
  m.def("onnx_ops", [] {
    nb::list all;
    for (const onnx::SupportedOp& op : onnx::supported_ops())
      all.append(nb::make_tuple(op.domain, op.name, op.topic, op.since));
    return all;
  });
  m.def(
      "onnx_value",
      [](nb::handle file, const std::string& type) {
        return python_of(onnx::load_value(bytes_of(file), type));
      },
      nb::arg("file"), nb::arg("type") = "tensor");
}

}  // namespace lathe::python
