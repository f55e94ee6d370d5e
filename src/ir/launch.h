// A hand-written kernel as a node of the tensor graph: an effect on memory, like Store. The kernel is stored
// as text, so that a traversal of a tensor graph never visits nodes of another form.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/node.h"

namespace lathe {

struct HandWritten {
  std::string name;
  std::string options;  // "[UPCAST(0, 4)]" or nothing
  Node kernel;          // a Sink over Params
};

// The kernel over this memory, by param slot. An operand that is no memory is stored before.
Node launch(const HandWritten& kernel, std::span<const Node> memory);
HandWritten hand_written(Node launch);

// The slots a kernel reads and writes.
struct SlotUse {
  bool reads = false, writes = false;
};
std::vector<SlotUse> slot_uses(Node kernel, std::size_t slots);

}  // namespace lathe
