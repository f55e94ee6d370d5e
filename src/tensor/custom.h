// User-defined ops by name.
#pragma once

#include <string_view>

#include "lathe/tensor.h"

namespace lathe {

// The op registered under a name, or null. Entries are never removed, so the pointer stays good.
const CustomOp* find_custom(std::string_view name);

}  // namespace lathe
