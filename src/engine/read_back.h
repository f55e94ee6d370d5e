// What a buffer holds, on the host.
#pragma once

#include "reference/array.h"
#include "runtime/executor.h"

namespace lathe::engine {

// Waits for what still writes it.
reference::Array read_back(Node buffer, const Place& place);

}  // namespace lathe::engine
