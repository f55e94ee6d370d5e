// Where in the user's program a tensor was made: the code object and the offset of the call, put into words
// only when they are shown. Frames of this package are passed over.
#include "arrays.h"
#include "bind.h"
#include "lathe/memory.h"

#include <frameobject.h>  // which Python.h leaves out before 3.11

namespace lathe::python {
namespace {

PyObject* package_folder = nullptr;  // a str, with the separator; never released

class CodePlace : public ProgramPlace {
 public:
  CodePlace(PyCodeObject* code, int offset) : code_(code), offset_(offset) {}  // takes the reference over
  ~CodePlace() override { drop_later(reinterpret_cast<PyObject*>(code_)); }
  CodePlace(const CodePlace&) = delete;
  CodePlace& operator=(const CodePlace&) = delete;

  std::string text() const override {
    nb::gil_scoped_acquire acquire;
    std::string file = nb::cast<std::string>(nb::handle(code_->co_filename));
    file.erase(0, file.rfind('/') + 1);
    return file + ":" + std::to_string(PyCode_Addr2Line(code_, offset_));
  }

 private:
  PyCodeObject* code_;
  int offset_;
};

int offset_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return frame->f_lasti * static_cast<int>(sizeof(_Py_CODEUNIT));
#endif
}

bool is_ours(PyCodeObject* code) {
  return PyUnicode_Tailmatch(code->co_filename, package_folder, 0, PY_SSIZE_T_MAX, -1) == 1;
}

PlaceRef here() {
  if (PyGILState_Check() == 0) return nullptr;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (!is_ours(code)) {
      const int offset = offset_of(frame);
      Py_DECREF(frame);
      return std::make_shared<CodePlace>(code, offset);
    }
    Py_DECREF(code);
    PyFrameObject* outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  return nullptr;
}

}  // namespace

void bind_places(nb::module_& m) {
  m.def("keep_places", [](const std::string& folder) {
    package_folder = PyUnicode_FromString(folder.c_str());
    set_place_hook(here);
  });
  m.def("memory_report", &memory_report, "most_lines"_a = 20);
  m.def("live_buffers", [] {
    nb::list out;
    for (const LiveBuffer& b : live_buffers()) out.append(nb::make_tuple(b.made, b.device, b.bytes));
    return out;
  });
}

}  // namespace lathe::python
