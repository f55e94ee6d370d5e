// How Lathe's types pass between C++ and Python. Tensors keep their identity: as long as the Python object of
// a handle lives, the same handle gives the same object again. Dtypes are one object each, so `is` compares
// them. Sizes are plain ints unless they are symbolic.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "lathe/lathe.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lathe::python {

// What a Python Tensor holds. All of them are in one list, for backward().
struct PyTensor : Tensor {
  explicit PyTensor(Tensor t);
  ~PyTensor();
  PyTensor(const PyTensor&) = delete;
  PyTensor& operator=(const PyTensor&) = delete;

  PyTensor *before = nullptr, *after = nullptr;
};
PyTensor* newest_tensor();  // the others follow by `before`

struct PyDType {
  DataType dtype;
};

// A symbolic size or a variable.
struct PySize {
  Size size;
};

// The Python object of a tensor (a new reference); None for one that is not defined.
nb::object wrap(const Tensor& t);
// One object a dtype.
nb::handle dtype_object(DataType dtype);
// None where the object is no number; takes whatever has __index__ or __float__ besides Python's own.
std::optional<Number> to_number(nb::handle object);
std::optional<Size> to_size(nb::handle object);
// Throws for a text that names no dtype.
std::optional<DataType> to_dtype(nb::handle object);
// Any array, nested list, number or tensor as a tensor on the device of `beside`.
Tensor to_tensor(nb::handle object, const Tensor& beside, std::optional<DataType> dtype = std::nullopt);

// The arguments of f(2, 3) and of f((2, 3)) alike.
nb::object flat_arguments(const nb::args& args);
// Also those of f(name=(2, 3)).
nb::object flat_arguments(const nb::args& args, const nb::kwargs& named, const char* name);
Shape shape_argument(const nb::args& args);
Ints ints_argument(const nb::args& args);
Ints ints_argument(const nb::args& args, const nb::kwargs& named, const char* name);
std::vector<Tensor> tensors_argument(const nb::args& args);

// "CPU", ("CPU",) or None, which is "".
std::string device_argument(nb::handle device);

// The docstring of the table python/bindings/docs.txt, or "".
const char* doc(std::string_view name);

}  // namespace lathe::python

namespace nanobind::detail {

template <>
struct type_caster<lathe::Tensor> : type_caster_base_tag {
  using Type = lathe::Tensor;
  static constexpr auto Name = const_name<lathe::python::PyTensor>();
  template <typename T>
  using Cast = precise_cast_t<T>;

  bool from_python(handle src, uint32_t flags, cleanup_list* cleanup) noexcept {
    lathe::python::PyTensor* p = nullptr;
    make_caster<lathe::python::PyTensor> inner;
    if (!inner.from_python(src, flags, cleanup)) return false;
    p = inner.operator lathe::python::PyTensor*();
    value_ = p;
    return true;
  }
  static handle from_cpp(const lathe::Tensor& t, rv_policy, cleanup_list*) noexcept {
    try {
      return lathe::python::wrap(t).release();
    } catch (...) {
      return {};
    }
  }
  static handle from_cpp(const lathe::Tensor* t, rv_policy policy, cleanup_list* cleanup) noexcept {
    return t == nullptr ? none().release() : from_cpp(*t, policy, cleanup);
  }
  template <typename T>
  bool can_cast() const noexcept {
    return std::is_pointer_v<T> || value_ != nullptr;
  }
  operator Type*() { return value_; }
  operator Type&() { return *value_; }
  operator Type&&() { return static_cast<Type&&>(*value_); }

 private:
  lathe::Tensor* value_ = nullptr;
};

// A dtype or its name. A name is looked up when the value is taken: only there an error can be thrown.
template <bool Optional>
struct dtype_caster {
  using Value = std::conditional_t<Optional, std::optional<lathe::DataType>, lathe::DataType>;
  static constexpr auto Name = const_name<Optional>("DType | str | None", "DType | str");
  template <typename T>
  using Cast = Value;
  template <typename T>
  static constexpr bool can_cast() {
    return true;
  }
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    given_ = src;
    return (Optional && src.is_none()) || PyUnicode_Check(src.ptr()) ||
           isinstance<lathe::python::PyDType>(src);
  }
  static handle from_cpp(const Value& d, rv_policy, cleanup_list*) noexcept {
    if constexpr (Optional) {
      return d ? lathe::python::dtype_object(*d).inc_ref() : none().release();
    } else {
      return lathe::python::dtype_object(d).inc_ref();
    }
  }
  explicit operator Value() {
    if constexpr (Optional) {
      return given_.is_none() ? std::nullopt : lathe::python::to_dtype(given_);
    } else {
      return *lathe::python::to_dtype(given_);
    }
  }

 private:
  handle given_;
};
template <>
struct type_caster<lathe::DataType> : dtype_caster<false> {};
template <>
struct type_caster<std::optional<lathe::DataType>> : dtype_caster<true> {};

template <>
struct type_caster<lathe::Size> {
  NB_TYPE_CASTER(lathe::Size, const_name("int | Size"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    auto found = lathe::python::to_size(src);
    if (found) value = std::move(*found);
    return found.has_value();
  }
  static handle from_cpp(const lathe::Size& s, rv_policy, cleanup_list*) noexcept {
    if (!s.is_symbolic()) return PyLong_FromLongLong(s.value());
    return cast(lathe::python::PySize{s}).release();
  }
};

template <>
struct type_caster<lathe::Shape> {
  NB_TYPE_CASTER(lathe::Shape, const_name("Sequence[int | Size]"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    if (auto one = lathe::python::to_size(src)) {
      value = {*one};
      return true;
    }
    if (!PyTuple_Check(src.ptr()) && !PyList_Check(src.ptr())) return false;
    value.clear();
    for (handle h : borrow(src)) {
      auto found = lathe::python::to_size(h);
      if (!found) return false;
      value.push_back(std::move(*found));
    }
    return true;
  }
  static handle from_cpp(const lathe::Shape& s, rv_policy policy, cleanup_list* cleanup) noexcept {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(s.size()));
    if (tuple == nullptr) return {};
    for (std::size_t i = 0; i < s.size(); ++i)
      PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i),
                      type_caster<lathe::Size>::from_cpp(s[i], policy, cleanup).ptr());
    return tuple;
  }
};

// An int, a sequence of them, or None for none.
template <>
struct type_caster<lathe::Ints> {
  NB_TYPE_CASTER(lathe::Ints, const_name("int | Sequence[int] | None"))
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    value = {};
    if (src.is_none()) return true;
    if (auto one = lathe::python::to_size(src)) {
      if (one->is_symbolic()) return false;
      value = lathe::Ints(one->value());
      return true;
    }
    if (!PyTuple_Check(src.ptr()) && !PyList_Check(src.ptr())) return false;
    std::vector<std::int64_t> values;
    for (handle h : borrow(src)) {
      auto found = lathe::python::to_size(h);
      if (!found || found->is_symbolic()) return false;
      values.push_back(found->value());
    }
    value = lathe::Ints(std::move(values));
    return true;
  }
  static handle from_cpp(const lathe::Ints& ints, rv_policy, cleanup_list*) noexcept {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(ints.size()));
    if (tuple == nullptr) return {};
    for (std::size_t i = 0; i < ints.size(); ++i)
      PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(ints[i]));
    return tuple;
  }
};

template <>
struct type_caster<lathe::Number> {
  using Value = lathe::Number;
  static constexpr auto Name = const_name("float | int | bool");
  template <typename T>
  using Cast = Value;
  template <typename T>
  static constexpr bool can_cast() {
    return true;
  }
  bool from_python(handle src, uint32_t, cleanup_list*) noexcept {
    auto found = lathe::python::to_number(src);
    if (found) value = *found;
    return found.has_value();
  }
  static handle from_cpp(const lathe::Number& n, rv_policy, cleanup_list*) noexcept {
    switch (n.kind()) {
      case lathe::Number::Kind::Bool: return PyBool_FromLong(n.to_int());
      case lathe::Number::Kind::Int:  // one beyond int64 shows in the double beside it
        return n.to_int() < 0 && n.to_double() > 0
                   ? PyLong_FromUnsignedLongLong(static_cast<std::uint64_t>(n.to_int()))
                   : PyLong_FromLongLong(n.to_int());
      case lathe::Number::Kind::Float: break;
    }
    return PyFloat_FromDouble(n.to_double());
  }
  explicit operator Value() { return value; }
  Value value = 0;
};

// A tensor (borrowed for the call), a number or a symbolic size.
template <>
struct type_caster<lathe::Operand> {
  using Value = lathe::Operand;
  static constexpr auto Name = const_name<lathe::python::PyTensor>() + const_name(" | float | int | bool");
  template <typename T>
  using Cast = Value;
  template <typename T>
  static constexpr bool can_cast() {
    return true;
  }
  bool from_python(handle src, uint32_t flags, cleanup_list* cleanup) noexcept {
    make_caster<lathe::python::PyTensor> tensor;
    if (!src.is_none() &&
        tensor.from_python(src, flags & ~static_cast<uint32_t>(cast_flags::convert), cleanup)) {
      value = lathe::Operand(static_cast<const lathe::Tensor&>(*tensor.operator lathe::python::PyTensor*()));
      return true;
    }
    if (auto number = lathe::python::to_number(src)) {
      value = lathe::Operand(*number);
      return true;
    }
    if (auto size = lathe::python::to_size(src)) {
      value = lathe::Operand(*size);
      return true;
    }
    return false;
  }
  explicit operator Value() { return value; }
  Value value = lathe::Operand(0);
};

}  // namespace nanobind::detail
