// Memory inside a kernel as scheduled belongs to one step of the ranges around it. Where some of those ranges
// have become copies in registers (UPCAST), each copy gets memory of its own.
//
//   before   i = i0*4 + u:  panel[t] = f(i, t);        ... panel[j] ...
//   after    i = i0*4 + u:  panel[u*N + t] = f(i, t);  ... panel[u*N + j] ...
#pragma once

#include "codegen/kernel/refusal.h"
#include "ir/node.h"
#include "target/target.h"

namespace lathe {

OrRefusal<Node> private_panels(Node kernel, const Target& target);

}  // namespace lathe
