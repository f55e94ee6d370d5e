// Lanes whose words lie in rows of memory, as where each lane has a block of weights of its own: four
// neighbouring words of every row are loaded at once and transposed, instead of one word of one row at a
// time.
//
//   before   x = Vec(Load(p, 0), Load(p, 9), Load(p, 18), Load(p, 27))   y = Vec(Load(p, 1), Load(p, 10),
//   ...)
//            z = Vec(Load(p, 2), ...)   w = Vec(Load(p, 3), ...)
//   after    a = Load.x4(p, 0)   b = Load.x4(p, 9)   c = Load.x4(p, 18)   d = Load.x4(p, 27)
//            x = Vec(a0 b0 c0 d0) and so on, by shuffles of two vectors at a time
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program transpose_loads(Program program, const Target& target);

}  // namespace lathe
