#include "backends/cuda/driver.h"

#include <fmt/format.h>

#include "backends/cuda/libraries.h"
#include "base/error.h"

namespace lathe::backends {
namespace {

struct Found {
  CudaDriver driver;
  bool usable = false;
  std::string why;
};

Found load() {
  Found out;
  LoadedLibrary library = load_cuda_library({"libcuda.so.1"});
  if (library.handle == nullptr) {
    out.why = "no NVIDIA driver: libcuda.so.1 was not found";
    return out;
  }
  CudaDriver& d = out.driver;
#define LATHE_CUDA_BIND(name, function, parameters)                                          \
  d.name = reinterpret_cast<decltype(d.name)>(symbol(library, #function));                   \
  if (d.name == nullptr) {                                                                   \
    out.why = fmt::format("the driver in {} is too old: it lacks " #function, library.path); \
    return out;                                                                              \
  }
  LATHE_CUDA_FUNCTIONS(LATHE_CUDA_BIND)
#undef LATHE_CUDA_BIND
  if (int code = d.init(0); code != kCuSuccess) {
    out.why = fmt::format("the NVIDIA driver does not start: {}", d.words(code));
    return out;
  }
  d.driver_version(&d.version);
  if (d.device_count(&d.gpus) != kCuSuccess || d.gpus == 0) {
    out.why = "the NVIDIA driver reports no GPU";
    return out;
  }
  out.usable = true;
  return out;
}

const Found& found() {
  static const Found* once = new Found(load());  // never destroyed: devices work until the process ends
  return *once;
}

}  // namespace

const CudaDriver* CudaDriver::get() { return found().usable ? &found().driver : nullptr; }
const std::string& CudaDriver::why_missing() { return found().why; }

std::string CudaDriver::words(int code) const {
  const char *name = nullptr, *text = nullptr;
  error_name(code, &name);
  error_text(code, &text);
  return fmt::format("{} ({}, {})", text != nullptr ? text : "unknown error",
                     name != nullptr ? name : "no name", code);
}

void CudaDriver::check(int code, std::string_view doing) const {
  if (code != kCuSuccess) throw DeviceError("CUDA", fmt::format("{}: {}", doing, words(code)));
}

int CudaDriver::attribute(CuDevice device, CuAttribute which) const {
  int value = 0;
  check(device_attribute(&value, static_cast<int>(which), device), "reading a fact of the GPU");
  return value;
}

std::string architecture_of(const CudaDriver& driver, int ordinal) {
  CuDevice device = 0;
  driver.check(driver.device_get(&device, ordinal), "opening the GPU");
  int major = driver.attribute(device, CuAttribute::ComputeMajor),
      minor = driver.attribute(device, CuAttribute::ComputeMinor);
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

}  // namespace lathe::backends
