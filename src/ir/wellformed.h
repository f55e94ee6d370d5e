// What a node must satisfy before it may be interned at all: number of operands, kind of attribute, axes
// within the operand's rank. The interner derives shapes and bounds from these without checking, so whatever
// makes nodes from untrusted input (the parser) asks here first; the verifier asks again.
#pragma once

#include <span>
#include <string>

#include "ir/node.h"

namespace lathe {

// Why {op, dtype, args, attr} is no node, in one sentence, or "" if it is one.
std::string node_fault(Op op, DType dtype, std::span<const Node> args, const Attr& attr);

}  // namespace lathe
