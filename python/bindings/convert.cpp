// Python objects to Lathe's values and back: the functions behind casters.h.
#include <algorithm>

#include "bind.h"

namespace lathe::python {
namespace {

PyTensor* newest = nullptr;

constexpr std::size_t kDtypes = 32;
PyObject* dtype_objects[kDtypes];

std::optional<Number> number_from_int(PyObject* object) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0 && !(value == -1 && PyErr_Occurred() != nullptr))
    return Number(static_cast<std::int64_t>(value));
  PyErr_Clear();
  if (overflow > 0) {
    const unsigned long long wide = PyLong_AsUnsignedLongLong(object);
    if (PyErr_Occurred() == nullptr) return Number(static_cast<std::uint64_t>(wide));
    PyErr_Clear();
  }
  const double rounded = PyLong_AsDouble(object);
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  return Number(rounded);
}

}  // namespace

PyTensor::PyTensor(Tensor t) : Tensor(std::move(t)), before(newest) {
  if (before != nullptr) before->after = this;
  newest = this;
}
PyTensor::~PyTensor() {
  if (defined()) set_front(nullptr);
  if (before != nullptr) before->after = after;
  if (after != nullptr)
    after->before = before;
  else
    newest = before;
}
PyTensor* newest_tensor() { return newest; }

nb::object wrap(const Tensor& t) {
  if (!t.defined()) return nb::none();
  if (void* object = t.front()) return nb::borrow(static_cast<PyObject*>(object));
  static const nb::handle type = nb::type<PyTensor>();
  nb::object made = nb::inst_alloc(type);
  new (nb::inst_ptr<PyTensor>(made)) PyTensor(t);
  nb::inst_mark_ready(made);
  t.set_front(made.ptr());
  return made;
}

nb::handle dtype_object(DataType dtype) {
  PyObject*& object = dtype_objects[static_cast<std::size_t>(dtype.scalar)];
  if (object == nullptr) object = nb::cast(PyDType{dtype}).release().ptr();
  return object;
}

std::optional<Number> to_number(nb::handle h) {
  PyObject* object = h.ptr();
  if (PyBool_Check(object)) return Number(object == Py_True);
  if (PyLong_Check(object)) return number_from_int(object);
  if (PyFloat_Check(object)) return Number(PyFloat_AsDouble(object));
  if (object == Py_None || PyTuple_Check(object) || PyList_Check(object) || PyUnicode_Check(object))
    return std::nullopt;
  if (nb::isinstance<PyTensor>(h) || nb::isinstance<PySize>(h) || nb::isinstance<Variable>(h))
    return std::nullopt;
  // Scalars of other libraries say what they are as Python objects.
  if (!nb::hasattr(h, "item") || !nb::hasattr(h, "ndim")) return std::nullopt;
  nb::object ndim = nb::steal(PyObject_GetAttrString(object, "ndim"));
  if (!ndim.is_valid() || !PyLong_Check(ndim.ptr()) || PyLong_AsLong(ndim.ptr()) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const nb::object kind = nb::getattr(nb::getattr(h, "dtype", nb::none()), "kind", nb::none());
  if (nb::isinstance<nb::str>(kind) &&
      std::string_view("mM").find(nb::cast<char>(kind)) != std::string_view::npos)
    return std::nullopt;  // times, of which some would say that they are integers
  nb::object plain = nb::steal(PyObject_CallMethod(object, "item", nullptr));
  if (!plain.is_valid() || plain.ptr() == object) {
    PyErr_Clear();
    return std::nullopt;
  }
  if (PyBool_Check(plain.ptr()) || PyLong_Check(plain.ptr()) || PyFloat_Check(plain.ptr()))
    return to_number(plain);
  return std::nullopt;
}

std::optional<Size> to_size(nb::handle h) {
  PyObject* object = h.ptr();
  if (PyBool_Check(object)) return std::nullopt;
  if (PyLong_Check(object)) {
    const long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return std::nullopt;
    }
    return Size(static_cast<std::int64_t>(value));
  }
  if (nb::isinstance<PySize>(h)) return nb::inst_ptr<PySize>(h)->size;
  if (nb::isinstance<Variable>(h)) return nb::inst_ptr<Variable>(h)->size();
  if (nb::isinstance<PyTensor>(h) || PyIndex_Check(object) == 0) return std::nullopt;
  nb::object plain = nb::steal(PyNumber_Index(object));
  if (!plain.is_valid()) {
    PyErr_Clear();
    return std::nullopt;
  }
  return to_size(plain);
}

std::optional<DataType> to_dtype(nb::handle h) {
  if (nb::isinstance<PyDType>(h)) return nb::inst_ptr<PyDType>(h)->dtype;
  if (PyUnicode_Check(h.ptr())) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(h.ptr(), &length);
    if (text == nullptr) {
      PyErr_Clear();
      return std::nullopt;
    }
    std::string name(text, static_cast<std::size_t>(length));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    try {
      return dtypes::parse(name);
    } catch (const UserError& error) {
      UnknownName unknown("dtype", "\"" + name + "\" names no dtype");
      const std::string said = error.what();
      if (const std::size_t help = said.find("help: "); help != std::string::npos)
        unknown.help(said.substr(help + 6));
      throw unknown;
    }
  }
  return std::nullopt;
}

nb::object flat_arguments(const nb::args& args) {
  if (args.size() == 1 && (PyTuple_Check(args[0].ptr()) || PyList_Check(args[0].ptr())))
    return nb::borrow(args[0]);
  return nb::borrow(args);
}

nb::object flat_arguments(const nb::args& args, const nb::kwargs& named, const char* name) {
  if (named.size() == 0) return flat_arguments(args);
  // PyTorch's names of the same argument.
  for (const char* other : {"dims", "dim", "sizes", "size", "shape"})
    if (!named.contains(name) && named.contains(other)) name = other;
  if (args.size() != 0 || named.size() != 1 || !named.contains(name))
    throw TypeError("arguments", std::string("numbers are needed, a sequence of them, or ") + name + "=");
  nb::object value = named[name];
  return PyTuple_Check(value.ptr()) || PyList_Check(value.ptr()) ? value : nb::object(nb::make_tuple(value));
}

namespace {

Shape sizes_of(const nb::object& given) {
  Shape out;
  for (nb::handle h : given) {
    auto size = to_size(h);
    if (!size) {
      const std::string text = nb::cast<std::string>(nb::repr(h));
      throw TypeError("shape", "a size is " + text + ", which is not an integer");
    }
    out.push_back(std::move(*size));
  }
  return out;
}

Ints ints_of(const Shape& sizes) {
  std::vector<std::int64_t> out;
  for (const Size& s : sizes) out.push_back(s.value());
  return Ints(std::move(out));
}

}  // namespace

Shape shape_argument(const nb::args& args) { return sizes_of(flat_arguments(args)); }
Ints ints_argument(const nb::args& args) { return ints_of(shape_argument(args)); }
Ints ints_argument(const nb::args& args, const nb::kwargs& named, const char* name) {
  return ints_of(sizes_of(flat_arguments(args, named, name)));
}

std::vector<Tensor> tensors_argument(const nb::args& args) {
  std::vector<Tensor> out;
  for (nb::handle h : flat_arguments(args)) {
    if (!nb::isinstance<PyTensor>(h)) {
      const std::string text = nb::cast<std::string>(nb::str(h.type()));
      throw TypeError("arguments", "a tensor is needed, not " + text);
    }
    out.push_back(*nb::inst_ptr<PyTensor>(h));
  }
  return out;
}

namespace {

// tinygrad's other names of the processor's memory.
std::string device_name(std::string given) {
  const std::size_t end = std::min(given.find(':'), given.size());
  std::string kind = given.substr(0, end);
  std::transform(kind.begin(), kind.end(), kind.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const char* name : {"PYTHON", "NPY", "CLANG", "LLVM"})
    if (kind == name) return "CPU" + given.substr(end);
  return given;
}

}  // namespace

std::string device_argument(nb::handle device) {
  if (device.is_none()) return "";
  if (PyUnicode_Check(device.ptr())) return device_name(nb::cast<std::string>(device));
  if (PyTuple_Check(device.ptr()) || PyList_Check(device.ptr())) {
    auto names = nb::cast<std::vector<std::string>>(device);
    if (names.size() == 1) return device_name(names[0]);
    throw NotSupported("device",
                       "a tensor over " + std::to_string(names.size()) + " devices is not supported yet");
  }
  throw TypeError("device", "a device is named by a string");
}

}  // namespace lathe::python
