// Files that hold tensors (lathe/state.h), trees of values (lathe/object.h) and files from elsewhere.
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>

#include "bind.h"
#include "paths.h"
#include "released.h"

namespace lathe::python {
namespace {

// What a reader of files gives, read while other threads may run.
template <class R>
auto read_by(R (*reader)(const state::Bytes&), nb::handle from) {
  const state::Bytes bytes = bytes_of(from);
  return made_here([&] { return reader(bytes); });
}

nb::dict dict_of(const state::StateDict& tensors) {
  nb::dict out;
  for (const auto& [name, tensor] : tensors) out[name.c_str()] = tensor;
  return out;
}

state::StateDict state_dict_of(nb::handle tensors, const char* op) {
  state::StateDict out;
  if (!PyDict_Check(tensors.ptr())) throw TypeError(op, "a dict of tensors is needed");
  for (auto [name, tensor] : nb::cast<nb::dict>(tensors)) {
    if (!PyUnicode_Check(name.ptr())) throw TypeError(op, "the names of tensors are strings");
    if (!nb::isinstance<PyTensor>(tensor))
      throw TypeError(op, "\"" + nb::cast<std::string>(name) + "\" is not a tensor");
    out.emplace_back(nb::cast<std::string>(name), *nb::inst_ptr<PyTensor>(tensor));
  }
  return out;
}

nb::object python_of(const Object& object) {
  switch (object.kind()) {
    case Object::Kind::None: return nb::none();
    case Object::Kind::Bool: return nb::cast(object.boolean());
    case Object::Kind::Int: return nb::cast(object.integer());
    case Object::Kind::Float: return nb::cast(object.number());
    case Object::Kind::String: return nb::cast(object.string());
    case Object::Kind::Bytes: return nb::bytes(object.bytes().data(), object.bytes().size());
    case Object::Kind::Tensor: return wrap(object.tensor());
    case Object::Kind::List:
    case Object::Kind::Tuple: {
      nb::list items;
      for (const Object& item : object.items()) items.append(python_of(item));
      return object.is(Object::Kind::List) ? nb::object(items) : nb::object(nb::tuple(items));
    }
    case Object::Kind::Dict: {
      nb::dict out;
      for (const auto& [key, value] : object.entries()) out[python_of(key)] = python_of(value);
      return out;
    }
  }
  return nb::none();
}

Object object_of(nb::handle value, int depth = 0) {
  if (depth > 200) throw UserError("save", "the object is nested too deeply, or contains itself");
  PyObject* p = value.ptr();
  if (value.is_none()) return {};
  if (nb::isinstance<PyTensor>(value))
    return Object(static_cast<const Tensor&>(*nb::inst_ptr<PyTensor>(value)));
  if (PyBool_Check(p)) return nb::cast<bool>(value);
  if (PyLong_Check(p)) return nb::cast<std::int64_t>(value);
  if (PyFloat_Check(p)) return nb::cast<double>(value);
  if (PyUnicode_Check(p)) return nb::cast<std::string>(value);
  if (PyBytes_Check(p)) {
    const auto bytes = nb::cast<nb::bytes>(value);
    const auto* data = static_cast<const std::byte*>(bytes.data());
    return Object::Bytes{{data, data + bytes.size()}};
  }
  if (PyDict_Check(p)) {
    Object::Entries entries;
    for (auto [key, item] : nb::cast<nb::dict>(value))
      entries.emplace_back(object_of(key, depth + 1), object_of(item, depth + 1));
    return entries;
  }
  if (PyList_Check(p) || PyTuple_Check(p)) {
    Object::Items items;
    for (nb::handle item : nb::borrow(value)) items.push_back(object_of(item, depth + 1));
    return PyList_Check(p) ? Object(std::move(items)) : Object(Object::Tuple{std::move(items)});
  }
  throw TypeError("save", std::string("a ") + Py_TYPE(p)->tp_name + " cannot be saved")
      .help("tensors, numbers, strings, bytes, None, lists, tuples and dicts can; pickle takes the rest");
}

void bind_fetch(nb::module_& m) {
  m.def(
      "fetch",
      [](const std::string& url, const std::string& name, const std::string& subdir, bool gunzip,
         bool allow_caching, const std::string& sha256, std::optional<std::uint64_t> size,
         nb::object download) {
        FetchOptions options{name, subdir, sha256, size, gunzip, allow_caching, {}};
        if (!download.is_none())
          options.download = [&](const std::string& from, const std::filesystem::path& to) {
            const nb::gil_scoped_acquire acquire;
            download(from, to.string());
          };
        return released([&] { return fetch(url, options); }).string();
      },
      "url"_a, "name"_a = "", "subdir"_a = "", "gunzip"_a = false, "allow_caching"_a = true, "sha256"_a = "",
      "size"_a = nb::none(), "download"_a.none() = nb::none());
}

}  // namespace

std::filesystem::path path_of(nb::handle path) {
  nb::object text = nb::steal(PyOS_FSPath(path.ptr()));
  if (!text.is_valid()) nb::raise_python_error();
  if (PyBytes_Check(text.ptr())) return std::string(nb::cast<nb::bytes>(text).c_str());
  return nb::cast<std::string>(text);
}

state::Bytes bytes_of(nb::handle from) {
  if (nb::isinstance<PyTensor>(from)) return static_cast<const Tensor&>(*nb::inst_ptr<PyTensor>(from));
  nb::object data = nb::borrow(from);
  if (nb::hasattr(from, "read")) data = from.attr("read")();
  if (PyObject_CheckBuffer(data.ptr()) == 0) return path_of(data);
  Py_buffer view;
  if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_SIMPLE) != 0) nb::raise_python_error();
  const auto size = static_cast<std::size_t>(view.len);
  Tensor bytes = Tensor::from_bytes(view.buf, size, {Size(size)}, dtypes::uint8, "CPU");
  PyBuffer_Release(&view);
  return bytes;
}

void bind_state(nb::module_& m) {
  m.def("safe_load", [](nb::handle fn) { return dict_of(read_by(state::safe_load, fn)); }, "fn"_a);
  m.def("safe_load_metadata", [](nb::handle fn) { return read_by(state::safe_load_metadata, fn); }, "fn"_a);
  m.def(
      "file_bytes",
      [](nb::handle fn) {
        const state::Bytes bytes = bytes_of(fn);
        const Tensor* tensor = std::get_if<Tensor>(&bytes);
        return tensor != nullptr ? *tensor : Tensor(std::get<std::filesystem::path>(bytes));
      },
      "fn"_a);
  m.def(
      "safe_save",
      [](nb::handle tensors, nb::handle fn, std::optional<state::Metadata> metadata) {
        const state::StateDict dict = state_dict_of(tensors, "safe_save");
        const std::filesystem::path file = path_of(fn);
        released([&] { state::safe_save(dict, file, metadata.value_or(state::Metadata())); });
      },
      "tensors"_a, "fn"_a, "metadata"_a.none() = nb::none());
  m.def("torch_load", [](nb::handle fn) { return python_of(read_by(state::torch_load, fn)); }, "fn"_a);
  m.def(
      "gguf_load",
      [](nb::handle fn) {
        const state::Gguf file = read_by(state::gguf_load, fn);
        return nb::make_tuple(python_of(file.metadata), dict_of(file.tensors));
      },
      "fn"_a);
  m.def("load_npy", [](nb::handle fn) { return read_by(state::load_npy, fn); }, "fn"_a);
  m.def("load_npz", [](nb::handle fn) { return dict_of(read_by(state::load_npz, fn)); }, "fn"_a);
  m.def(
      "save_npy",
      [](const Tensor& tensor, nb::handle fn) {
        const std::filesystem::path file = path_of(fn);
        released([&] { state::save_npy(tensor, file); });
      },
      "tensor"_a, "fn"_a);
  m.def(
      "save_npz",
      [](nb::handle tensors, nb::handle fn, bool compressed) {
        const state::StateDict dict = state_dict_of(tensors, "save_npz");
        const std::filesystem::path file = path_of(fn);
        released([&] { state::save_npz(dict, file, compressed); });
      },
      "tensors"_a, "fn"_a, "compressed"_a = false);
  m.def("tar_extract", [](nb::handle fn) { return dict_of(read_by(state::tar_extract, fn)); }, "fn"_a);
  m.def("zip_extract", [](nb::handle fn) { return dict_of(read_by(state::zip_extract, fn)); }, "fn"_a);
  m.def(
      "save",
      [](nb::handle obj, nb::handle fn) {
        const Object object = object_of(obj);
        const std::filesystem::path file = path_of(fn);
        released([&] { save(object, file); });
      },
      "obj"_a.none(), "fn"_a);
  m.def(
      "load",
      [](nb::handle fn) {
        const std::filesystem::path file = path_of(fn);
        return python_of(made_here([&] { return load(file); }));
      },
      "fn"_a);
  m.def(
      "checkpoint",
      [](nb::handle function, const std::vector<Tensor>& inputs) {
        return checkpoint(
            [&](const std::vector<Tensor>& given) {
              nb::list arguments;
              for (const Tensor& t : given) arguments.append(t);
              return nb::cast<Tensor>(function(*nb::tuple(arguments)));
            },
            inputs);
      },
      "function"_a, "inputs"_a);
  bind_fetch(m);
}

}  // namespace lathe::python
