// On targets without vector values, contiguous scalar loads and stores become one wide access, up to the
// width of the target's widest instruction and only if the alignment is proved.
//
//   before   Load(x, i*4), Load(x, i*4 + 1), Load(x, i*4 + 2), Load(x, i*4 + 3)
//   after    v = Load.f32x4(x, i*4) and Lane(v, 0) ... Lane(v, 3)
#pragma once

#include "codegen/kernel/lowering.h"

namespace lathe {

Node group_memory(Node kernel, Lowering& lowering);

}  // namespace lathe
