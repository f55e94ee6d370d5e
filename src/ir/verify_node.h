// The checks of the verifier that only look at one node and its operands.
#pragma once

#include <string>

#include "ir/node.h"
#include "ir/verify.h"

namespace lathe {

// Planned: a kernel over the buffers of the graph, before they are numbered as params.
enum class Form : std::uint8_t { Tensor, Planned, Kernel, LoweredKernel, Program };

// What is wrong with the node in this form, or "".
std::string local_fault(Node node, Form form);

}  // namespace lathe
