// Asks the SMT solver whether an index can leave [0, size) while the gate is true. Index expressions become
// integer arithmetic; everything else (loaded data, floats, wrapping casts) becomes an unknown within its
// dtype's bounds, and a counterexample that depends on unknowns proves nothing.
#pragma once

#include <cstdint>
#include <string>

#include "ir/node.h"

namespace lathe::verify {

struct BoundsQuestion {
  Node index;
  Node gate;  // null: always
  std::int64_t size = 0;
  std::uint16_t lanes = 1;  // elements accessed: consecutive ones where the index is scalar
};

struct BoundsAnswer {
  enum class Kind : std::uint8_t { Inside, CanLeave, Unknown } kind = Kind::Unknown;
  std::string counterexample;  // values under which it leaves, checked by evaluating the expressions
};

// Unknown where the solver takes more than `effort` of its steps (some 2,000 of them are a millisecond), and
// where this build has no solver.
BoundsAnswer ask_solver(const BoundsQuestion& question, unsigned effort);

}  // namespace lathe::verify
