// The device of a value, for all code that makes or moves buffers.
#pragma once

#include <string>

#include "ir/node.h"
#include "ir/walk.h"

namespace lathe {

// The device of a value: that of the first buffer or copy its operands lead to, in operand order; empty for
// values made of constants alone.
std::string device_of(Node node);

// The same for all values of an order, in which operands come before users: the buffer or copy whose text is
// the device, null for values made of constants alone.
NodeMap<Node> device_sources(std::span<const Node> order);

}  // namespace lathe
