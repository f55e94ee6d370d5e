// The public error kinds, for code inside Lathe, and the check that reports our own bugs. The kinds
// themselves are in include/lathe/error.h because users catch them.
#pragma once

#include <string_view>

#include "lathe/error.h"

namespace lathe {

// Throws InternalError when a condition that never depends on user input is false. Unlike assert it stays in
// release builds, so use it where the check is cheap and going on would corrupt results.
void check_internal(bool ok, std::string_view where, std::string_view message);

}  // namespace lathe
