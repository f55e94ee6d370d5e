// The part of a node's key that stays when numbers change which are sizes or follow from them. A key has it
// in its upper bits and the hash of all of the node in the lower ones. So operands that differ in more than
// numbers are in one order at every size, and a graph of another size is likely to differ in its numbers
// alone.
#pragma once

#include <cstdint>

#include "ir/node.h"

namespace lathe {

inline constexpr int kFormKeyBits = 28;

// Equal for graphs that differ only in such numbers, and rarely for others.
inline std::uint64_t form_key(Node node) { return node.key() >> (64 - kFormKeyBits); }

}  // namespace lathe
