// Facts about the registers of a store's code before it runs in lanes: which differ by lane, which have error
// bounds, and where roundings form a chain.
#pragma once

#include <span>
#include <vector>

#include "reference/bounded.h"
#include "reference/code.h"
#include "reference/lane_split.h"

namespace lathe::reference {

struct RegisterFacts {
  bool wide = false;     // differs by lane
  bool bounded = false;  // carries errors; others are exact in every lane
  bool chained = false;  // grows by a rounding with each step of a loop
  bool splat = false;    // one for all lanes, but asked for by lane somewhere
  bool added = false;    // operand of an addition
  bool summed = false;   // a factor of what a sum adds up
};

struct LaneFacts {
  std::vector<RegisterFacts> registers, memories;
  bool pairs = false;  // some floats are float64: all are pairs of doubles

  // Whether none of its operands carries errors.
  bool has_exact_operands(const Step& step) const;
  // Whether the step runs for every lane.
  bool is_wide(const Step& step) const;
  // Whether it makes a factor of a sum of products that a matrix unit may do, which takes bfloat16 numbers
  // below the smallest normal one for 0, and such sums too (ir/dot.h).
  bool may_flush(const Step& step) const;
  // Whether it widens an fp8 number that is summed: a matrix unit may keep few bits of such sums.
  bool is_fp8(const Step& step) const;
};

LaneFacts lane_facts(const Code& code, std::span<const Position* const> positions, const LaneSplit& split);

// LoopBegin and LoopEnd, and the end of all.
bool is_control(Act act);

// Whether an error stays as it is but for a factor on its way through the op: roundings along such a chain
// have nothing to do with each other.
bool keeps_chain(const Step& step);

// Whether running values that round are passed on in the very loop that the step begins; sums have bounds of
// their own.
bool passes_on_roundings(const Step& begin);

}  // namespace lathe::reference
