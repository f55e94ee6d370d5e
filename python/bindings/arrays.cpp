#include "arrays.h"

#include <nanobind/ndarray.h>

#include <cstring>
#include <filesystem>
#include <mutex>

#include "bind.h"

namespace lathe::python {
namespace {

bool is_list(nb::handle h) { return PyTuple_Check(h.ptr()) || PyList_Check(h.ptr()); }
Py_ssize_t list_size(PyObject* list) {
  return PyTuple_Check(list) ? PyTuple_GET_SIZE(list) : PyList_GET_SIZE(list);
}
PyObject* list_item(PyObject* list, Py_ssize_t i) {
  return PyTuple_Check(list) ? PyTuple_GET_ITEM(list, i) : PyList_GET_ITEM(list, i);
}

// The numbers of a nested list in row-major order, as floats and, until a float turns up, as integers.
struct Flat {
  std::vector<std::int64_t> ints;  // modulo 2^64
  std::vector<double> floats;
  std::vector<Size> shape;
  bool any_float = false, all_bool = true;
  bool wide = false, negative = false;         // an integer beyond int64, below 0
  DataType int_dtype = dtypes::default_int();  // that holds all integers
  std::size_t count = 0;

  void add(const Number& n) {
    any_float |= n.kind() == Number::Kind::Float;
    all_bool &= n.kind() == Number::Kind::Bool;
    if (n.kind() == Number::Kind::Int && n.dtype() != dtypes::default_int() && int_dtype != dtypes::uint64)
      int_dtype = n.dtype();
    if (n.kind() == Number::Kind::Int && n.to_int() < 0) (n.to_double() > 0 ? wide : negative) = true;
    if (!any_float) ints.push_back(n.to_int());
    floats.push_back(n.to_double());
    ++count;
  }

  void collect(PyObject* object, std::size_t depth) {
    if (!is_list(object)) {
      auto number = to_number(object);
      if (!number) {
        const std::string text = nb::cast<std::string>(nb::repr(nb::handle(object).type()));
        throw TypeError("tensor", "a list holds " + text + ", which is not a number");
      }
      if (depth != shape.size()) throw UserError("tensor", "a list is nested unevenly");
      add(*number);
      return;
    }
    const Py_ssize_t n = list_size(object);
    if (depth == shape.size() && count == 0) shape.emplace_back(n);
    if (depth >= shape.size() || shape[depth].value() != n)
      throw UserError("tensor", "a list has " + std::to_string(n) + " elements where " +
                                    (depth < shape.size() ? shape[depth].str() + " are" : "a number is") +
                                    " expected")
          .help("all lists at the same depth must have the same length");
    for (Py_ssize_t i = 0; i < n; ++i) collect(list_item(object, i), depth + 1);
  }
};

// Whether a list holds tensors or arrays somewhere.
bool holds_arrays(PyObject* list) {
  for (Py_ssize_t i = 0; i < list_size(list); ++i) {
    PyObject* item = list_item(list, i);
    if (is_list(item)) return holds_arrays(item);
    if (PyFloat_Check(item) || PyLong_Check(item)) return false;
    if (nb::isinstance<PyTensor>(item)) return true;
    return !to_number(item).has_value() && nb::hasattr(nb::handle(item), "shape");
  }
  return false;
}

using AnyArray = nb::ndarray<nb::ro>;

std::optional<DataType> dtype_of_array(const nb::dlpack::dtype& d) {
  using Code = nb::dlpack::dtype_code;
  if (d.lanes != 1) return std::nullopt;
  const auto code = static_cast<Code>(d.code);
  if (code == Code::Bool && d.bits == 8) return dtypes::bool_;
  if (code == Code::Bfloat) return dtypes::bfloat16;
  if (code == Code::Float) switch (d.bits) {
      case 16: return dtypes::float16;
      case 32: return dtypes::float32;
      case 64: return dtypes::float64;
      default: return std::nullopt;
    }
  if (code != Code::Int && code != Code::UInt) return std::nullopt;
  const bool sign = code == Code::Int;
  switch (d.bits) {
    case 8: return sign ? dtypes::int8 : dtypes::uint8;
    case 16: return sign ? dtypes::int16 : dtypes::uint16;
    case 32: return sign ? dtypes::int32 : dtypes::uint32;
    case 64: return sign ? dtypes::int64 : dtypes::uint64;
    default: return std::nullopt;
  }
}

bool in_order(const AnyArray& a) {
  std::int64_t expected = 1;
  for (std::size_t i = a.ndim(); i-- > 0;) {
    if (a.shape(i) == 0) return true;
    if (a.shape(i) != 1 && a.stride(i) != expected) return false;
    expected *= static_cast<std::int64_t>(a.shape(i));
  }
  return true;
}

// Copies a strided array into row-major order.
std::vector<std::byte> ordered(const AnyArray& a, std::size_t width) {
  std::vector<std::byte> out(a.size() * width);
  std::vector<std::size_t> index(a.ndim(), 0);
  const auto* from = static_cast<const std::byte*>(a.data());
  for (std::size_t e = 0; e < a.size(); ++e) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < a.ndim(); ++i) at += static_cast<std::int64_t>(index[i]) * a.stride(i);
    std::memcpy(out.data() + e * width, from + at * static_cast<std::int64_t>(width), width);
    for (std::size_t i = a.ndim(); i-- > 0;) {
      if (++index[i] < a.shape(i)) break;
      index[i] = 0;
    }
  }
  return out;
}

std::string text_of(const nb::object& object) { return nb::cast<std::string>(nb::str(object)); }

// Arrays of numpy's that hold something else than numbers, or not all of them; others are in their own order
// of bytes afterwards.
nb::object plain_array(nb::handle array) {
  nb::object out = nb::borrow(array);
  const nb::object dtype = nb::getattr(array, "dtype", nb::none());
  const nb::object fields = nb::getattr(dtype, "names", nb::none());
  if (!fields.is_none())
    throw TypeError("tensor", "a structured array has the fields " + text_of(fields) + ", not numbers")
        .help("make a tensor of one field: array[\"" + text_of(fields[0]) + "\"]");
  const nb::object kind = nb::getattr(dtype, "kind", nb::none());
  if (!PyUnicode_Check(kind.ptr())) return out;
  const auto letter = nb::cast<std::string>(kind);
  if (letter == "m" || letter == "M")
    throw TypeError("tensor", "an array of " + text_of(dtype) + " holds times, not numbers")
        .help("array.astype(\"int64\") gives them as numbers");
  if (letter == "c" || letter == "S" || letter == "U" || letter == "V")
    throw TypeError("tensor", "there is no dtype for an array of " + text_of(dtype));
  const nb::object mask = nb::getattr(array, "mask", nb::none());
  if (nb::hasattr(array, "filled") && !mask.is_none() && PyObject_IsTrue(mask.attr("any")().ptr()) == 1)
    throw TypeError("tensor", "a masked array has elements without a value")
        .help("array.filled(0) gives them one");
  if (nb::hasattr(dtype, "isnative") && PyObject_IsTrue(dtype.attr("isnative").ptr()) == 0)
    out = array.attr("astype")(dtype.attr("newbyteorder")("="));
  return out;
}

struct Dropped {
  std::mutex mutex;
  std::vector<PyObject*> objects;
};
Dropped& dropped() {
  static auto* all = new Dropped;  // never destroyed: buffers may die during exit
  return *all;
}
int drop_now(void*) {
  std::vector<PyObject*> objects;
  {
    std::lock_guard guard(dropped().mutex);
    objects.swap(dropped().objects);
  }
  for (PyObject* object : objects) Py_DECREF(object);
  return 0;
}

}  // namespace

void drop_later(PyObject* object) {
  {
    std::lock_guard guard(dropped().mutex);
    dropped().objects.push_back(object);
  }
  if (Py_IsInitialized() != 0)
    Py_AddPendingCall(drop_now, nullptr);  // where the queue is full, the next one drops all
}

Tensor from_list(nb::handle list, const TensorOptions& options) {
  if (holds_arrays(list.ptr())) {
    std::vector<Tensor> rows;
    for (nb::handle item : nb::borrow(list)) rows.push_back(make_tensor(item, options));
    return Tensor::stack(rows, 0);
  }
  Flat flat;
  flat.collect(list.ptr(), 0);
  TensorOptions o = options;
  if (!o.dtype)
    o.dtype = flat.any_float || flat.count == 0 ? dtypes::default_float()
              : flat.all_bool                   ? dtypes::bool_
                                                : flat.int_dtype;
  const bool too_far_apart = flat.wide && flat.negative;
  if (too_far_apart && !o.dtype->is_float() && !flat.any_float)
    throw UserError("tensor", "no integer dtype holds both negative numbers and numbers above 2**63 - 1")
        .help("name a float dtype, for example dtype=dtypes.float64");
  if (flat.any_float || too_far_apart) return Tensor(flat.floats, flat.shape, o);
  if (flat.wide) {
    std::vector<std::uint64_t> wide(flat.ints.begin(), flat.ints.end());
    return Tensor(wide, flat.shape, o);
  }
  return Tensor(flat.ints, flat.shape, o);
}

std::optional<Tensor> from_array(nb::handle object, const TensorOptions& options, bool share) {
  AnyArray array;
  const bool is_buffer = PyObject_CheckBuffer(object.ptr()) != 0;
  if (!is_buffer && !nb::hasattr(object, "__dlpack__")) return std::nullopt;
  if (!nb::try_cast(object, array)) {
    PyErr_Clear();
    return std::nullopt;
  }
  auto dtype = dtype_of_array(array.dtype());
  if (!dtype || array.device_type() != nb::device::cpu::value) return std::nullopt;
  Shape shape;
  for (std::size_t i = 0; i < array.ndim(); ++i) shape.emplace_back(array.shape(i));
  if (share) {
    if (!in_order(array))
      throw UserError("from_array", "an array that is not in row-major order cannot be shared")
          .help("copy it: Tensor(array)");
    TensorOptions o = options;
    o.dtype = *dtype;
    nb::capsule keep(new AnyArray(array), [](void* p) noexcept { delete static_cast<AnyArray*>(p); });
    PyObject* held = keep.release().ptr();
    return Tensor::from_blob(const_cast<void*>(array.data()), shape, o, [held] { drop_later(held); });
  }
  const auto width = static_cast<std::size_t>(dtype->itemsize());
  std::vector<std::byte> own;
  const void* data = array.data();
  if (!in_order(array)) {
    own = ordered(array, width);
    data = own.data();
  }
  Tensor t = Tensor::from_bytes(data, array.size() * width, shape, *dtype, options.device);
  if (options.dtype) t = t.cast(*options.dtype);
  if (options.requires_grad) t.requires_grad_();
  return t;
}

Tensor make_tensor(nb::handle data, const TensorOptions& options) {
  if (nb::isinstance<PyTensor>(data)) {
    Tensor t = *nb::inst_ptr<PyTensor>(data);
    if (!options.device.empty()) t = t.to(options.device);
    if (options.dtype) t = t.cast(*options.dtype);
    return t;
  }
  if (data.is_none()) return Tensor::full({Size(0)}, 0.0, options);
  // An array without axes is data, not a number: two of them are two tensors, however equal.
  const bool is_array = nb::hasattr(data, "__dlpack__");
  if (auto number = is_array ? std::nullopt : to_number(data)) return Tensor(*number, options);
  if (auto size = is_array ? std::nullopt : to_size(data)) {
    Tensor zero(Number(0),
                {.dtype = options.dtype ? *options.dtype : dtypes::default_int(), .device = options.device});
    Tensor out = zero.add(*size);
    return options.dtype ? out.cast(*options.dtype) : out;
  }
  if (is_list(data)) return from_list(data, options);
  if (PyBytes_Check(data.ptr()) || PyByteArray_Check(data.ptr())) {
    const bool plain = PyBytes_Check(data.ptr());
    const char* bytes = plain ? PyBytes_AS_STRING(data.ptr()) : PyByteArray_AS_STRING(data.ptr());
    const auto n =
        static_cast<std::size_t>(plain ? PyBytes_GET_SIZE(data.ptr()) : PyByteArray_GET_SIZE(data.ptr()));
    const DataType dtype = options.dtype ? *options.dtype : dtypes::uint8;
    const auto width = static_cast<std::size_t>(dtype.itemsize());
    if (n % width != 0)
      throw UserError("tensor",
                      std::to_string(n) + " bytes are no whole number of " + std::string(dtype.name()));
    Tensor t = Tensor::from_bytes(bytes, n, {Size(n / width)}, dtype, options.device);
    if (options.requires_grad) t.requires_grad_();
    return t;
  }
  if (nb::hasattr(data, "__fspath__")) {
    nb::object path = nb::steal(PyOS_FSPath(data.ptr()));
    return Tensor(std::filesystem::path(nb::cast<std::string>(path)), options);
  }
  // Other libraries do not give away what they differentiate.
  const nb::object trained = nb::getattr(data, "requires_grad", nb::none());
  if (trained.is(Py_True) && nb::hasattr(data, "detach")) return make_tensor(data.attr("detach")(), options);
  const nb::object plain = plain_array(data);
  if (auto t = from_array(plain, options, false)) return *t;
  if (nb::hasattr(plain, "dtype") &&
      nb::hasattr(plain, "tolist")) {  // an array of a dtype of its own, say of objects
    nb::object list = plain.attr("tolist")();
    if (is_list(list)) return from_list(list, options);
  }
  if (nb::hasattr(plain, "__array__"))
    return make_tensor(nb::module_::import_("numpy").attr("asarray")(plain), options);
  const std::string text = nb::cast<std::string>(nb::repr(data.type()));
  throw TypeError("tensor", "cannot make a tensor of " + text)
      .help("a number, a nested list, bytes, a path or an array can be one");
}

Tensor to_tensor(nb::handle object, const Tensor& beside, std::optional<DataType> dtype) {
  return make_tensor(object, {.dtype = dtype, .device = beside.device()});
}

}  // namespace lathe::python
