// NVIDIA GPUs as devices. A device is a context of a GPU and streams of its own; several virtual devices
// share one GPU.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace lathe::backends {

// Virtual devices on a machine with one GPU; a machine with more has at least one for each.
inline constexpr int kCudaDevices = 4;

// Throws DeviceError where there is no such device.
std::unique_ptr<Device> open_cuda_device(int index);

}  // namespace lathe::backends
