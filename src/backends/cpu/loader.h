// Compiled kernels in memory. Kernels that share their code (several were compiled as one library) share what
// is loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device.h"

namespace lathe::backends {

using KernelFunction = void (*)(void** buffers, const std::int64_t* variables, std::int64_t part,
                                char* scratch);

// Code that stays loaded while anybody holds it.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
  virtual KernelFunction find(const std::string& symbol) = 0;  // throws DeviceError
};

struct CpuKernel : Kernel {
  std::string name;
  KernelFunction function = nullptr;
  std::int64_t scratch_bytes = 0;
  std::shared_ptr<LoadedCode> code;  // shared by kernels of one library
};

// Throws DeviceError where the code is damaged or needs features that this CPU lacks.
std::unique_ptr<CpuKernel> load_kernel(const Binary& binary);

}  // namespace lathe::backends
