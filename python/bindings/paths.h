// Where a file's bytes are, as Python says it.
#pragma once

#include <filesystem>

#include "casters.h"
#include "lathe/state.h"

namespace lathe::python {

std::filesystem::path path_of(nb::handle path);
// A path, a tensor of bytes, bytes, or a file that is open for reading.
state::Bytes bytes_of(nb::handle from);

}  // namespace lathe::python
