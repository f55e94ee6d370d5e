// Measures the peak of a device with groups of threads: copies within its memory, and a kernel that only does
// multiply-adds, compiled and launched like any other.
#pragma once

#include "engine/roof.h"

namespace lathe::engine {

Roof measure_groups(OpenDevice& device);

}  // namespace lathe::engine
