// Programs to cubins through NVRTC. Needs no GPU, so kernels can be compiled anywhere and run where there is
// one.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace lathe::backends {

// Programs that one run of NVRTC compiles: starting it costs more than most kernels.
inline constexpr std::size_t kCudaBatch = 64;

// Throws DeviceError where NVRTC is not found.
std::shared_ptr<const Compiler> make_cuda_compiler(Target target);

}  // namespace lathe::backends
