// Lathe's errors as Python exceptions. A UserError is a ValueError, a RuntimeError and an AssertionError at
// once, because programs written against other libraries catch any of them.
#include "bind.h"

namespace lathe::python {
namespace {

struct Kinds {
  PyObject *user, *index, *type, *index_type, *name, *option, *jit, *missing, *unsupported, *compile, *device,
      *memory, *internal;
};
Kinds kinds;

PyObject* make_kind(nb::module_& m, const char* name, std::initializer_list<PyObject*> bases,
                    const char* text) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(bases.size())));
  Py_ssize_t i = 0;
  for (PyObject* base : bases) {
    Py_INCREF(base);
    PyTuple_SetItem(tuple.ptr(), i++, base);
  }
  const std::string full = std::string("lathe.errors.") + name;
  PyObject* kind = PyErr_NewExceptionWithDoc(full.c_str(), text, tuple.ptr(), nullptr);
  if (kind == nullptr) nb::raise_python_error();
  m.attr(name) = nb::borrow(kind);
  return kind;
}

// With the number that handlers of OSError look at.
void set_missing(const char* text) {
  nb::object error = nb::steal(PyObject_CallFunction(kinds.missing, "s", text));
  nb::object number = nb::steal(PyLong_FromLong(ENOENT));
  if (!error.is_valid() || PyObject_SetAttrString(error.ptr(), "errno", number.ptr()) != 0) return;
  PyErr_SetObject(kinds.missing, error.ptr());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const KernelOptError& e) {
    PyErr_SetString(kinds.option, e.what());
  } catch (const JitError& e) {
    PyErr_SetString(kinds.jit, e.what());
  } catch (const UnknownName& e) {
    PyErr_SetString(kinds.name, e.what());
  } catch (const IndexTypeError& e) {
    PyErr_SetString(kinds.index_type, e.what());
  } catch (const MissingFile& e) {
    set_missing(e.what());
  } catch (const NotSupported& e) {
    PyErr_SetString(kinds.unsupported, e.what());
  } catch (const IndexError& e) {
    PyErr_SetString(kinds.index, e.what());
  } catch (const TypeError& e) {
    PyErr_SetString(kinds.type, e.what());
  } catch (const UserError& e) {
    PyErr_SetString(kinds.user, e.what());
  } catch (const CompileError& e) {
    PyErr_SetString(kinds.compile, e.what());
  } catch (const OutOfMemory& e) {
    PyErr_SetString(kinds.memory, e.what());
  } catch (const DeviceError& e) {
    PyErr_SetString(kinds.device, e.what());
  } catch (const InternalError& e) {
    PyErr_SetString(kinds.internal, e.what());
  } catch (const std::bad_cast&) {
    PyErr_SetString(kinds.type, "lathe: an argument, or a value in one, has a type that is not taken there");
  }
}

}  // namespace

void set_python_error(const std::exception_ptr& error) {
  try {
    translate(error, nullptr);
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

void bind_errors(nb::module_& m) {
  kinds.user = make_kind(m, "UserError", {PyExc_ValueError, PyExc_RuntimeError, PyExc_AssertionError},
                         "The caller can fix it.");
  kinds.index =
      make_kind(m, "IndexError", {kinds.user, PyExc_IndexError}, "An axis or index is out of range.");
  kinds.type = make_kind(m, "TypeError", {kinds.user, PyExc_TypeError}, "A dtype does not fit.");
  kinds.index_type = make_kind(m, "IndexTypeError", {kinds.type, kinds.index}, "What cannot be an index.");
  kinds.missing =
      make_kind(m, "MissingFile", {kinds.user, PyExc_FileNotFoundError}, "A file or folder is not there.");
  kinds.unsupported = make_kind(m, "NotSupported", {kinds.user, PyExc_NotImplementedError},
                                "It makes sense and is not supported.");
  kinds.name = make_kind(m, "UnknownName", {kinds.user, PyExc_AttributeError}, "A name means nothing.");
  kinds.option = make_kind(m, "KernelOptError", {kinds.user}, "A kernel option does not fit its kernel.");
  kinds.jit = make_kind(m, "JitError", {kinds.user}, "A captured function cannot do this.");
  kinds.compile = make_kind(m, "CompileError", {PyExc_RuntimeError}, "A compiler refused generated text.");
  kinds.device = make_kind(m, "DeviceError", {PyExc_RuntimeError}, "A driver or system call failed.");
  kinds.memory =
      make_kind(m, "OutOfMemory", {kinds.device, PyExc_MemoryError}, "The memory plan does not fit.");
  kinds.internal = make_kind(m, "InternalError", {PyExc_RuntimeError}, "Lathe broke its own rules.");
  nb::register_exception_translator(translate);
}

}  // namespace lathe::python
