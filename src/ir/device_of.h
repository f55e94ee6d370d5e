// Where a value lives, asked by everything that makes or moves buffers.
#pragma once

#include <string>

#include "ir/node.h"

namespace lathe {

// The device of a value: that of the first buffer or copy its operands lead to, in operand order; empty for
// values made of constants alone.
std::string device_of(Node node);

}  // namespace lathe
