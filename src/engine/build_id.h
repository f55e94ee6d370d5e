// An id of this build of Lathe. It is part of every cache key: a rebuilt compiler must not read what an older
// one wrote.
#pragma once

#include <string>

namespace lathe::engine {

// The linker's build id of the program or library this code is in; its size and time where it has none.
const std::string& build_id();

}  // namespace lathe::engine
