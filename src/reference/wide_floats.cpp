#include "reference/wide_floats.h"

namespace lathe::reference {
namespace {

void widen(Step& s) {
  switch (s.act) {
    case Act::Scalar:
    case Act::HReduce:
      if (s.dtype.is_float()) s.fn = scalar_function(s.op, dtypes::Float64);
      break;
    case Act::Convert:
      if (s.from.is_float()) s.from = dtypes::Float64;
      if (s.to.is_float()) s.to = dtypes::Float64;
      break;
    case Act::Dot: s.wide = true; break;
    default: break;
  }
}

}  // namespace

void widen_floats(Code& code) {
  for (Step& s : code.steps) widen(s);
  for (MemorySlot& m : code.memories)
    if (m.kind == MemorySlot::Kind::Group && m.dtype.is_float()) m.dtype = dtypes::Float64;
}

}  // namespace lathe::reference
