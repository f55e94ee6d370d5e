// The conditions for interning a node: number of operands, kind of attribute, axes within the operand's rank.
// The interner derives shapes and bounds from these without checking, so code that makes nodes from untrusted
// input (the parser) checks them first; the verifier checks them again.
#pragma once

#include <span>
#include <string>

#include "ir/node.h"

namespace lathe {

// Why {op, dtype, args, attr} is no node, in one sentence, or "" if it is one.
std::string node_fault(Op op, DType dtype, std::span<const Node> args, const Attr& attr);

}  // namespace lathe
