// Memory inside a scheduled kernel belongs to one step of the ranges around it. If some of these ranges
// became copies in registers (UPCAST), each copy gets its own memory.
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
