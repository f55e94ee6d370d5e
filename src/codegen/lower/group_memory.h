// Where programs have no vector values, neighbouring scalar loads and stores are still done together: one
// wide access instead of several, as far as the target's widest instruction goes and the alignment is proved.
//
//   before   Load(x, i*4), Load(x, i*4 + 1), Load(x, i*4 + 2), Load(x, i*4 + 3)
//   after    v = Load.f32x4(x, i*4) and Lane(v, 0) ... Lane(v, 3)
#pragma once

#include "codegen/kernel/lowering.h"

namespace lathe {

Node group_memory(Node kernel, Lowering& lowering);

}  // namespace lathe
