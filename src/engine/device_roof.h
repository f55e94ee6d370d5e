// The roof of a device with groups of threads: copies within its memory, and multiply-adds of a kernel that
// does nothing else, compiled and launched as any other.
#pragma once

#include "engine/roof.h"

namespace lathe::engine {

Roof measure_groups(OpenDevice& device);

}  // namespace lathe::engine
