// Captured functions: arguments flattened to tensors and bound sizes by the Python side.
#include <nanobind/stl/function.h>

#include <filesystem>
#include <fstream>

#include "bind.h"
#include "released.h"

namespace lathe::python {
namespace {

// The Python function behind a capture; called with the GIL held, whoever replays.
Jit make_jit(nb::object function) {
  auto held = std::make_shared<nb::object>(std::move(function));
  return Jit([held](const std::vector<Tensor>& inputs, const std::vector<Size>& sizes) {
    nb::gil_scoped_acquire acquire;
    nb::object result = (*held)(nb::cast(inputs), nb::cast(sizes));
    return nb::cast<std::vector<Tensor>>(result);
  });
}

struct TemporaryFile {
  TemporaryFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lathe-capture-XXXXXX").string();
    const int fd = mkstemp(pattern.data());
    if (fd < 0) throw DeviceError("jit", "no temporary file can be made");
    close(fd);
    path = pattern;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::filesystem::path path;
};

nb::bytes saved(const Jit& jit) {
  const TemporaryFile file;
  const std::string bytes = released([&] {
    jit.save(file.path);
    std::ifstream in(file.path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  });
  return nb::bytes(bytes.data(), bytes.size());
}

Jit loaded(nb::bytes bytes) {
  const TemporaryFile file;
  const std::string_view contents(bytes.c_str(), bytes.size());  // the argument is held by the caller
  return released([&] {
    {
      std::ofstream out(file.path, std::ios::binary);
      out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
    }
    return Jit::load(file.path);
  });
}

}  // namespace

void bind_jit(nb::module_& m) {
  nb::class_<Jit>(m, "Jit")
      .def("__init__", [](Jit* self, nb::object function) { new (self) Jit(make_jit(std::move(function))); })
      .def("__call__",
           [](Jit& jit, const std::vector<Tensor>& inputs, const std::vector<Size>& bound) {
             auto call = [&] { return jit(inputs, bound); };
             // While it is traced, the function's own lines make the tensors.
             return jit.captured() ? made_here(call) : released(call);
           })
      .def_prop_ro("captured", &Jit::captured)
      .def_prop_ro("kernels", &Jit::kernels)
      .def("reset", &Jit::reset)
      .def("save", saved)
      .def_static("load", loaded);
}

}  // namespace lathe::python
