// Kernels compiled for CUDA and, where there is a GPU, run there: shared by the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/cuda_compiler.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/nvrtc.h"
#include "codegen/codegen.h"
#include "reference/array.h"
#include "reference/reference.h"

// Ends a test with the reason where kernels cannot be compiled, or compiled kernels not be run.
#define LATHE_NEEDS_NVRTC() \
  if (lathe::backends::Nvrtc::get() == nullptr) GTEST_SKIP() << lathe::backends::Nvrtc::why_missing()
#define LATHE_NEEDS_GPU()                            \
  LATHE_NEEDS_NVRTC();                               \
  if (lathe::backends::CudaDriver::get() == nullptr) \
  GTEST_SKIP() << lathe::backends::CudaDriver::why_missing()

namespace lathe::test {

// A compiler for the GPU of this machine, or for sm_90a.
std::shared_ptr<const Compiler> cuda_compiler();

// The values of the variables that the kernels of the codegen tests name.
const reference::Bindings& bindings();

// Runs a program on a device over arrays by slot, which are copied there and back.
void run_on(Device& device, const Program& program, const Binary& binary, std::span<reference::Array> arrays);

// Arrays for a program's params, filled with small whole numbers so that every order of a float sum is exact.
std::vector<reference::Array> arrays_for(const Program& program, std::uint64_t seed);

}  // namespace lathe::test
