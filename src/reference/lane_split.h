// With few positions and a long reduce most lanes would be idle. So several lanes of a position share the
// steps of the reduce: every lane runs a part of one of its loops, and at the end of the reduce their sums
// are combined. Everything outside the shared loops is computed by all lanes of a position.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/code.h"
#include "reference/lane_ops.h"

namespace lathe::reference {

struct LaneSplit {
  int share = 1;            // lanes of a position
  std::vector<char> loops;  // by step of the code: the loop that begins there is shared; empty for none
  std::vector<std::uint32_t> reduces;  // registers of their running values

  bool shares(const Code& code, const Step& step) const {
    return !loops.empty() && loops[static_cast<std::size_t>(&step - code.steps.data())] != 0;
  }
  bool joins(std::uint32_t reduce) const { return std::ranges::find(reduces, reduce) != reduces.end(); }
};

// How `lanes` lanes are given to so many positions.
LaneSplit split_lanes(const Code& code, std::size_t positions, std::size_t lanes);

// What running the positions together costs: operations of a lane, where going from one step to the next
// counts as so many of them.
inline constexpr double kLanesPerStep = 10;
double lockstep_cost(const Code& code, const LaneSplit& split, std::size_t positions);

// Makes one of what the lanes of each position have of a reduce, before its ReduceEnd is done; all of them
// hold it afterwards.
void join_lanes(const LaneStep& end, int share);

}  // namespace lathe::reference
