// REF as a device: memory is the process's own, a kernel is a program that is evaluated when it is launched,
// threads in random order, every access checked. All work is done before the call returns, so every event has
// happened.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace lathe::backends {

std::unique_ptr<Device> open_ref_device(int index);

}  // namespace lathe::backends
