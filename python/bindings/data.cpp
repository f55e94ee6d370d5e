// Values in and out: item, tolist, the buffer protocol, numpy, DLPack; realising; devices and dtypes.
// Whatever may wait for a device lets other Python threads run meanwhile.
#include <nanobind/ndarray.h>

#include <cstring>

#include "arrays.h"
#include "bind.h"
#include "dlpack.h"
#include "lathe/dev/faults.h"
#include "released.h"

namespace lathe::python {
namespace {

void realize(const Tensor& t, const std::vector<Tensor>& others) {
  std::vector<Tensor> all = {t};
  all.insert(all.end(), others.begin(), others.end());
  released([&] { Tensor::realize_all(std::span<const Tensor>(all)); });
}

std::vector<std::byte> read(const Tensor& t) {
  return released([&] { return t.bytes(); });
}

bool is_small_float(DataType d) { return d.is_float() && d != dtypes::float32 && d != dtypes::float64; }

template <class E>
nb::object element(const std::byte* at, bool is_bool) {
  E value;
  std::memcpy(&value, at, sizeof(E));
  if (is_bool) return nb::borrow(value != 0 ? Py_True : Py_False);
  return nb::cast(value);
}
using Element = nb::object (*)(const std::byte*, bool);
Element element_of(DataType d) {
  if (d == dtypes::float64) return element<double>;
  if (d.is_float()) return element<float>;
  if (d.is_bool()) return element<std::uint8_t>;
  switch (d.itemsize()) {
    case 1: return d.is_unsigned() ? element<std::uint8_t> : element<std::int8_t>;
    case 2: return d.is_unsigned() ? element<std::uint16_t> : element<std::int16_t>;
    case 4: return d.is_unsigned() ? element<std::uint32_t> : element<std::int32_t>;
    default: return d.is_unsigned() ? element<std::uint64_t> : element<std::int64_t>;
  }
}

struct Elements {
  explicit Elements(const Tensor& t)
      : source(is_small_float(t.dtype()) ? t.cast(dtypes::float32) : t),
        bytes(read(source)),
        width(static_cast<std::size_t>(source.element_size())),
        get(element_of(source.dtype())),
        is_bool(source.dtype().is_bool()) {}
  nb::object at(std::size_t i) const { return get(bytes.data() + i * width, is_bool); }

  Tensor source;
  std::vector<std::byte> bytes;
  std::size_t width;
  Element get;
  bool is_bool;
};

nb::object nested(const Elements& e, std::span<const std::int64_t> shape, std::size_t& next) {
  if (shape.empty()) return e.at(next++);
  nb::object out = nb::steal(PyList_New(shape[0]));
  for (std::int64_t i = 0; i < shape[0]; ++i)
    PyList_SET_ITEM(out.ptr(), i, nested(e, shape.subspan(1), next).release().ptr());
  return out;
}

nb::object tolist(const Tensor& t) {
  std::vector<std::int64_t> shape;
  for (const Size& s : t.shape()) shape.push_back(s.bound_value());
  std::size_t next = 0;
  return nested(Elements(t), shape, next);
}

nb::object item(const Tensor& t) {
  if (t.numel().bound_value() != 1)
    throw UserError("item", "the tensor has shape " + to_string(t.shape()) + ", which is not one element")
        .help("index it, or use tolist() for all elements");
  return Elements(t).at(0);
}

// The tensor's memory where the host can reach it in order: its own if possible, else a copy's.
struct HostMemory {
  explicit HostMemory(const Tensor& t) : tensor(t) {
    released([&] {
      data = tensor.numel().bound_value() == 0 ? nullptr : tensor.host_data();
      if (data != nullptr) return;
      static std::byte nothing;  // an address for tensors without elements
      copy = tensor.bytes();
      data = copy.empty() ? &nothing : copy.data();
    });
    for (const Size& s : tensor.shape()) shape.push_back(s.bound_value());
    strides.resize(shape.size());
    std::int64_t step = 1;
    for (std::size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
    count = step;
  }
  Tensor tensor;
  void* data = nullptr;
  std::vector<std::byte> copy;
  std::vector<std::int64_t> shape, strides;  // in elements
  std::int64_t count = 1;
};

// ---- the buffer protocol: read only, because equal values may share memory
struct View {
  explicit View(const Tensor& t) : memory(t) {
    const std::int64_t width = t.element_size();
    for (std::size_t i = 0; i < memory.shape.size(); ++i) {
      shape.push_back(memory.shape[i]);
      strides.push_back(memory.strides[i] * width);
    }
    format[0] = t.dtype().fmt();
  }
  HostMemory memory;
  std::vector<Py_ssize_t> shape, strides;
  char format[2] = {0, 0};
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  view->obj = nullptr;
  try {
    const Tensor& t = *nb::inst_ptr<PyTensor>(self);
    if (t.dtype().fmt() == 0) {
      PyErr_SetString(PyExc_BufferError, "this dtype has no buffer format; cast it first");
      return -1;
    }
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
      PyErr_SetString(PyExc_BufferError, "a tensor's memory can be read through a buffer, not written");
      return -1;
    }
    const dev::FaultsStayScope stay;  // numpy drops what is raised here and asks in other ways
    auto held = std::make_unique<View>(t);
    view->buf = held->memory.data;
    view->itemsize = t.element_size();
    view->len = view->itemsize * held->memory.count;
    view->ndim = static_cast<int>(held->shape.size());
    view->format = (flags & PyBUF_FORMAT) != 0 ? held->format : nullptr;
    view->shape = (flags & PyBUF_ND) != 0 ? held->shape.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? held->strides.data() : nullptr;
    view->readonly = 1;
    view->suboffsets = nullptr;
    view->internal = held.release();
    view->obj = Py_NewRef(self);
    return 0;
  } catch (nb::python_error& e) {
    e.restore();
    return -1;
  } catch (...) {
    set_python_error(std::current_exception());
    return -1;
  }
}
void release_buffer(PyObject*, Py_buffer* view) noexcept { delete static_cast<View*>(view->internal); }

// ---- DLPack
struct Exported {
  explicit Exported(const Tensor& t) : memory(t) {}
  HostMemory memory;
  DLManagedTensor managed{};
};

void drop_unused_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;  // a consumer took it and renamed the capsule
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

nb::object to_dlpack(const Tensor& t) {
  auto held = std::make_unique<Exported>(t);
  DLManagedTensor& m = held->managed;
  const DataType d = t.dtype();
  if (d.is_float() && d.itemsize() == 1)
    throw TypeError("dlpack", std::string(d.name()) + " has no DLPack code").help("bitcast it to uint8");
  m.dl_tensor.data = held->memory.data;
  m.dl_tensor.device = {kDLCPU, 0};
  m.dl_tensor.ndim = static_cast<std::int32_t>(held->memory.shape.size());
  m.dl_tensor.dtype = {static_cast<std::uint8_t>(d == dtypes::bfloat16 ? kDLBfloat
                                                 : d.is_float()        ? kDLFloat
                                                 : d.is_bool()         ? kDLBool
                                                 : d.is_unsigned()     ? kDLUInt
                                                                       : kDLInt),
                       static_cast<std::uint8_t>(d.itemsize() * 8), 1};
  m.dl_tensor.shape = held->memory.shape.data();
  m.dl_tensor.strides = held->memory.strides.data();
  m.manager_ctx = held.get();
  m.deleter = [](DLManagedTensor* self) { delete static_cast<Exported*>(self->manager_ctx); };
  PyObject* capsule = PyCapsule_New(&m, "dltensor", drop_unused_capsule);
  if (capsule == nullptr) nb::raise_python_error();
  held.release();
  return nb::steal(capsule);
}

// An array over memory that `owner` keeps.
nb::object numpy_over(nb::handle owner, const HostMemory& memory, DataType d, bool writable) {
  nb::module_ numpy = nb::module_::import_("numpy");
  const std::string letter(1, d.fmt());
  nb::dict face;
  nb::list shape;
  for (std::int64_t s : memory.shape) shape.append(s);
  face["shape"] = nb::tuple(shape);
  face["typestr"] = numpy.attr("dtype")(letter).attr("str");
  face["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(memory.data), !writable);
  face["version"] = 3;
  nb::object holder = nb::module_::import_("types").attr("SimpleNamespace")("__array_interface__"_a = face,
                                                                            "owner"_a = owner);
  return numpy.attr("asarray")(holder);
}

Tensor readable(const Tensor& t) { return t.dtype().fmt() == 0 ? t.cast(dtypes::float32) : t; }

nb::object numpy_of(const Tensor& t, bool copy) {
  const Tensor source = readable(t);
  auto held = std::make_unique<HostMemory>(source);
  if (copy && held->copy.empty() && held->count > 0) {
    const auto* from = static_cast<const std::byte*>(held->data);
    nb::gil_scoped_release release;
    held->copy.assign(from, from + held->count * source.element_size());
    held->data = held->copy.data();
    held->tensor = Tensor();
  }
  const HostMemory& memory = *held;
  nb::capsule owner(held.release(), [](void* p) noexcept { delete static_cast<HostMemory*>(p); });
  return numpy_over(owner, memory, source.dtype(), copy);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                       {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                       {0, nullptr}};

}  // namespace

PyType_Slot* tensor_slots() { return slots; }

void bind_data(TensorClass& c) {
  c.def(
      "realize",
      [](nb::handle self, nb::args others, bool) {
        realize(nb::cast<const Tensor&>(self), tensors_argument(others));
        return nb::borrow(self);
      },
      "others"_a, "do_update_stats"_a = true, doc("Tensor.realize"));
  c.def("item", item, doc("Tensor.item"));
  c.def("tolist", tolist, doc("Tensor.tolist"));
  c.def(
      "data",
      [](nb::handle self) {
        const Tensor& t = nb::cast<const Tensor&>(self);
        nb::object source = t.dtype().fmt() == 0 ? nb::cast(t.cast(dtypes::float32)) : nb::borrow(self);
        return nb::steal(PyMemoryView_FromObject(source.ptr()));
      },
      doc("Tensor.data"));
  c.def(
      "tobytes",
      [](const Tensor& t) {
        const std::vector<std::byte> bytes = read(t);
        return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      },
      doc("Tensor.tobytes"));
  c.def("numpy", [](const Tensor& t) { return numpy_of(t, true); }, doc("Tensor.numpy"));
  c.def(
      "__array__",
      [](const Tensor& t, nb::handle dtype, nb::handle copy) {
        nb::object shared = numpy_of(t, PyObject_IsTrue(copy.ptr()) == 1);
        return dtype.is_none() ? shared : nb::object(shared.attr("astype")(dtype, "copy"_a = false));
      },
      "dtype"_a.none() = nb::none(), "copy"_a.none() = nb::none(), doc("Tensor.__array__"));
  c.def(
      "__dlpack__", [](const Tensor& t, nb::kwargs) { return to_dlpack(t); }, "kwargs"_a,
      doc("Tensor.__dlpack__"));
  c.def("__dlpack_device__", [](const Tensor&) { return nb::make_tuple(static_cast<int>(kDLCPU), 0); });
  auto shared = [](nb::handle array, const char* what) {
    auto t = from_array(array, {}, true);
    if (!t) throw TypeError(what, "an array in this process's memory with a dtype Lathe has is needed");
    return *t;
  };
  c.def_static(
      "from_dlpack", [shared](nb::handle a) { return shared(a, "from_dlpack"); }, "array"_a,
      doc("Tensor.from_dlpack"));
  c.def_static(
      "from_numpy", [shared](nb::handle a) { return shared(a, "from_numpy"); }, "array"_a,
      doc("Tensor.from_numpy"));
  c.def_static(
      "from_blob",
      [](std::uintptr_t ptr, const Shape& shape, std::optional<DataType> dtype, nb::handle device,
         std::optional<bool> requires_grad) {
        Tensor t = Tensor::from_blob(reinterpret_cast<void*>(ptr), shape,
                                     {.dtype = dtype, .device = device_argument(device)});
        if (requires_grad) t.requires_grad_(*requires_grad);
        return t;
      },
      "ptr"_a, "shape"_a, "dtype"_a.none() = nb::none(), "device"_a.none() = nb::none(),
      "requires_grad"_a.none() = nb::none(), doc("Tensor.from_blob"));

  // ---- storages
  c.def(
      "clone",
      [](const Tensor& t, nb::handle device) {
        Tensor out = device.is_none() ? t.clone() : t.to(device_argument(device)).clone();
        // One that nobody asked for may be gone, and is not copied.
        if (t.grad_wish() == std::optional(true))
          if (auto grad = t.grad()) out.set_grad(grad->clone());
        return out;
      },
      "device"_a.none() = nb::none(), doc("Tensor.clone"));
  c.def(
      "assign",
      [](nb::handle self, nb::handle value) {
        Tensor& t = nb::cast<Tensor&>(self);
        Operand operand(0);
        if (nb::try_cast(value, operand))
          t.assign(operand);
        else
          t.assign(to_tensor(value, t, t.dtype()));
        return nb::borrow(self);
      },
      "x"_a, doc("Tensor.assign"));
  c.def(
      "replace",
      [](nb::handle self, const Tensor& other, bool allow_shape_mismatch) {
        nb::cast<Tensor&>(self).replace(other, allow_shape_mismatch);
        return nb::borrow(self);
      },
      "x"_a, "allow_shape_mismatch"_a = false, doc("Tensor.replace"));
  c.def("detach", [](const Tensor& t) { return t.detach(); }, doc("Tensor.detach"));
  c.def(
      "contiguous",
      [](const Tensor& t, nb::handle arg, nb::kwargs) {  // tinygrad's further words are hints
        if (arg.is_none()) return t.contiguous();
        nb::object texts = nb::module_::import_("lathe.options").attr("text_of_all")(arg);
        return t.contiguous(parse_opts(nb::cast<std::string>(texts)));
      },
      "arg"_a.none() = nb::none(), "kwargs"_a, doc("Tensor.contiguous"));
  c.def(
      "contiguous_backward", [](const Tensor& t) { return t.contiguous_backward(); },
      doc("Tensor.contiguous_backward"));

  // ---- devices and dtypes
  auto target = [](nb::handle device) {
    return device.is_none() ? default_device() : device_argument(device);
  };
  c.def(
      "to",
      [target](nb::handle self, nb::handle device) -> nb::object {
        // Other things than a device, such as a dtype, are further forms.
        if (!device.is_none() && !PyUnicode_Check(device.ptr()) && !PyTuple_Check(device.ptr()) &&
            !PyList_Check(device.ptr()))
          throw nb::next_overload();
        const Tensor& t = nb::cast<const Tensor&>(self);
        Tensor out = t.to(target(device));
        return out.impl() == t.impl() ? nb::borrow(self) : nb::cast(out);
      },
      "device"_a.none(), doc("Tensor.to"));
  c.def(
      "to_",
      [target](nb::handle self, nb::handle device) {
        nb::cast<Tensor&>(self).to_(target(device));
        return nb::borrow(self);
      },
      "device"_a.none(), doc("Tensor.to_"));
  c.def(
      "shard",
      [](const Tensor& t, const std::vector<std::string>& devices, std::optional<std::int64_t> axis) {
        return t.shard(devices, axis);
      },
      "devices"_a, "axis"_a.none() = nb::none(), doc("Tensor.shard"));
  c.def(
      "shard_",
      [](nb::handle self, const std::vector<std::string>& devices, std::optional<std::int64_t> axis) {
        nb::cast<Tensor&>(self).shard_(devices, axis);
        return nb::borrow(self);
      },
      "devices"_a, "axis"_a.none() = nb::none(), doc("Tensor.shard_"));
  c.def(
      "shard_like", [](const Tensor& t, const Tensor& y) { return t.shard_like(y); }, "y"_a,
      doc("Tensor.shard_like"));
  c.def("cast", [](const Tensor& t, DataType dtype) { return t.cast(dtype); }, "dtype"_a, doc("Tensor.cast"));
  c.def(
      "bitcast", [](const Tensor& t, DataType dtype) { return t.bitcast(dtype); }, "dtype"_a,
      doc("Tensor.bitcast"));
  struct Cast {
    const char *name, *path;
    DataType to;
  };
  static constexpr Cast kCasts[] = {{"float", "Tensor.float", dtypes::float32},
                                    {"half", "Tensor.half", dtypes::float16},
                                    {"bfloat16", "Tensor.bfloat16", dtypes::bfloat16},
                                    {"double", "Tensor.double", dtypes::float64},
                                    {"int", "Tensor.int", dtypes::int32},
                                    {"long", "Tensor.long", dtypes::int64},
                                    {"short", "Tensor.short", dtypes::int16},
                                    {"bool", "Tensor.bool", dtypes::bool_}};
  for (const Cast& cast : kCasts)
    c.def(cast.name, [to = cast.to](const Tensor& t) { return t.cast(to); }, doc(cast.path));
}

}  // namespace lathe::python
