// A kernel over buffers becomes a kernel over params: buffers numbered by first visit (the written one
// first), ranges renumbered, so that equal computations on other buffers are equal nodes and are lowered
// once.
#pragma once

#include <string>
#include <vector>

#include "ir/node.h"

namespace lathe {

struct NormalKernel {
  Node ast;
  std::vector<Node> buffers;  // by slot
};
NormalKernel normalize_kernel(Node sink);

// A name for people from the kernel's ranges: "r_512_64_25".
std::string kernel_name(Node ast);

}  // namespace lathe
