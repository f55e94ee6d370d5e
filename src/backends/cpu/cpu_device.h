// The CPU as a device: memory is the process's own, kernels run on the shared thread pool.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace lathe::backends {

// Virtual device `index`: queues of its own on the same cores and memory.
std::unique_ptr<Device> open_cpu_device(int index);

}  // namespace lathe::backends
