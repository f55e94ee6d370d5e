// One question to the SMT solver: can this index leave [0, size) where the gate is true? Index expressions
// become integer arithmetic; what is not arithmetic over ranges and variables (loaded data, floats, wrapping
// casts) becomes an unknown of its dtype's bounds, and an answer that depends on unknowns proves nothing.
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
