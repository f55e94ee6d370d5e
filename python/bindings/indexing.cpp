// x[...] and x[...] = v, and the functions that take index tensors.
#include "arrays.h"
#include "bind.h"
#include "released.h"

namespace lathe::python {
namespace {

SliceEnd slice_end(PyObject* object) {
  if (object == Py_None) return {};
  if (nb::isinstance<PyTensor>(object)) {
    throw TypeError("getitem", "a slice's end is a tensor").help("use an int, or a bound Variable");
  }
  auto size = to_size(object);
  if (!size)
    throw TypeError("getitem", "a slice's end is " + nb::cast<std::string>(nb::repr(nb::handle(object))));
  return *size;
}

std::int64_t slice_step(PyObject* object) {
  if (object == Py_None) return 1;
  auto size = to_size(object);
  if (!size)
    throw TypeError("getitem", "a slice's step is " + nb::cast<std::string>(nb::repr(nb::handle(object))));
  return size->value();
}

Index index_of(nb::handle h, const Tensor& t) {
  PyObject* object = h.ptr();
  if (object == Py_None) return kNewAxis;
  if (object == Py_Ellipsis) return kEllipsis;
  if (PySlice_Check(object)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    return Slice{slice_end(slice->start), slice_end(slice->stop), slice_step(slice->step)};
  }
  if (PyBool_Check(object))
    return Tensor(Number(object == Py_True), {.dtype = dtypes::bool_, .device = t.device()});
  if (nb::isinstance<PyTensor>(h)) return static_cast<const Tensor&>(*nb::inst_ptr<PyTensor>(h));
  if (PyTuple_Check(object) || PyList_Check(object)) {
    const bool empty = (PyTuple_Check(object) ? PyTuple_GET_SIZE(object) : PyList_GET_SIZE(object)) == 0;
    if (empty) return to_tensor(h, t, dtypes::default_int());
    return to_tensor(h, t);
  }
  // A single bool of another library is a mask, although it would also pass for a number.
  const bool is_mask = !PyLong_Check(object) && nb::hasattr(h, "dtype") &&
                       nb::cast<std::string>(nb::repr(h.attr("dtype"))).find("bool") != std::string::npos;
  if (is_mask) return to_tensor(h, t);
  if (auto size = to_size(h)) return *size;
  if (nb::hasattr(h, "shape")) return to_tensor(h, t);
  IndexTypeError error("getitem", "an index is " + nb::cast<std::string>(nb::repr(h)));
  error.help("an index is an integer, a slice, None, ..., or a tensor, list or array of integers or bools");
  throw error;
}

// A list with a slice, None or ... in it stands for a tuple, not for an array of numbers.
bool is_list_of_indices(PyObject* key) {
  if (!PyList_Check(key)) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(key); ++i) {
    PyObject* item = PyList_GET_ITEM(key, i);
    if (PySlice_Check(item) || item == Py_None || item == Py_Ellipsis) return true;
  }
  return false;
}

std::vector<Index> indices_of(nb::handle key, const Tensor& t) {
  std::vector<Index> out;
  if (PyTuple_Check(key.ptr()) || is_list_of_indices(key.ptr())) {
    for (nb::handle h : nb::borrow(key)) out.push_back(index_of(h, t));
    return out;
  }
  out.push_back(index_of(key, t));
  return out;
}

nb::object get(nb::handle self, nb::handle key) {
  const Tensor& t = *nb::inst_ptr<PyTensor>(self);
  if (PyLong_CheckExact(key.ptr())) return nb::cast(t.getitem({index_of(key, t)}));
  return nb::cast(t.getitem(indices_of(key, t)));
}

void set(nb::handle self, nb::handle key, nb::handle value) {
  Tensor& t = *nb::inst_ptr<PyTensor>(self);
  const std::vector<Index> indices = indices_of(key, t);
  Operand operand(0);
  if (nb::try_cast(value, operand))
    t.setitem(indices, operand);
  else
    t.setitem(indices, to_tensor(value, t, t.dtype()));
}

}  // namespace

void bind_indexing(TensorClass& c) {
  c.def("__getitem__", get, "indices"_a.none(), doc("Tensor.__getitem__"));
  c.def("__setitem__", set, "indices"_a.none(), "v"_a, doc("Tensor.__setitem__"));
  c.def(
      "__delitem__",
      [](nb::handle, nb::handle) { throw nb::type_error("a tensor's items cannot be deleted"); },
      "indices"_a.none());
  c.def("__iter__", [](const Tensor& t) {
    if (t.ndim() == 0) throw nb::type_error("iteration over a 0-d tensor");
    nb::list rows;
    for (std::int64_t i = 0; i < t.shape()[0].value(); ++i) rows.append(t.getitem({Index(i)}));
    return nb::iter(rows);
  });
  c.def("__contains__", [](const Tensor& t, const Operand& x) { return t.eq(x).any().item<double>() != 0; });
  c.def(
      "gather", [](const Tensor& t, std::int64_t dim, const Tensor& index) { return t.gather(dim, index); },
      "dim"_a, "index"_a, doc("Tensor.gather"));
  c.def(
      "scatter",
      [](const Tensor& t, std::int64_t dim, const Tensor& index, const Operand& src,
         std::optional<std::string> reduce) { return t.scatter(dim, index, src, reduce.value_or("")); },
      "dim"_a, "index"_a, "src"_a, "reduce"_a.none() = nb::none(), doc("Tensor.scatter"));
  c.def(
      "scatter_reduce",
      [](const Tensor& t, std::int64_t dim, const Tensor& index, const Tensor& src, const std::string& reduce,
         bool include_self) { return t.scatter_reduce(dim, index, src, reduce, include_self); },
      "dim"_a, "index"_a, "src"_a, "reduce"_a, "include_self"_a = true, doc("Tensor.scatter_reduce"));
  c.def(
      "masked_select",
      [](const Tensor& t, const Tensor& mask, std::optional<std::int64_t> size, Number fill) {
        return made_here([&] { return t.masked_select(mask, size, fill); });
      },
      "mask"_a, "size"_a.none() = nb::none(), "fill_value"_a = 0, doc("Tensor.masked_select"));
  c.def(
      "nonzero",
      [](const Tensor& t, std::optional<std::int64_t> size, Number fill) {
        return made_here([&] { return t.nonzero(size, fill); });
      },
      "size"_a.none() = nb::none(), "fill_value"_a = 0, doc("Tensor.nonzero"));
  c.def(
      "one_hot", [](const Tensor& t, std::int64_t classes) { return t.one_hot(classes); },
      "num_classes"_a = -1, doc("Tensor.one_hot"));
  c.def(
      "embedding", [](const Tensor& t, const Tensor& index) { return t.embedding(index); }, "index"_a,
      doc("Tensor.embedding"));
  c.def(
      "sort",
      [](const Tensor& t, std::int64_t dim, bool descending, bool) { return t.sort(dim, descending); },
      "dim"_a = -1, "descending"_a = false, "stable"_a = true, doc("Tensor.sort"));
  c.def(
      "argsort",
      [](const Tensor& t, std::int64_t dim, bool descending, bool) { return t.argsort(dim, descending); },
      "dim"_a = -1, "descending"_a = false, "stable"_a = true, doc("Tensor.argsort"));
  c.def(
      "topk",
      [](const Tensor& t, std::int64_t k, std::int64_t dim, bool largest, bool sorted) {
        return t.topk(k, dim, largest, sorted);
      },
      "k"_a, "dim"_a = -1, "largest"_a = true, "sorted_"_a = true, doc("Tensor.topk"));
}

}  // namespace lathe::python
