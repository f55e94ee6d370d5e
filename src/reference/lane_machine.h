// Runs the code of one store at many positions at once: every register holds a value for each position (a
// lane), or one for all of them where it is the same everywhere, and floats (and integers that hang on them)
// hold their errors beside it. Loops whose length differs by lane run as long as the longest, the others
// standing still. Where there are fewer positions than lanes, several lanes share the long reduces of one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reference/bounded.h"
#include "reference/code.h"

namespace lathe::reference {

// Why the code cannot run in lanes, in words, or "".
std::string lane_refusal(const Code& code);

// About how many scalar operations one position takes.
double lane_cost(const Code& code);

// The samples of one store, by position; `positions` hold the values of its output ranges, `lanes` is at
// least their number. Faults and the count of operations are added to the report.
std::vector<Sample> run_lanes(const Code& code, std::span<const View> params, const Bindings& bindings,
                              std::span<const Position* const> positions, std::size_t lanes,
                              std::span<const OpError> native, double max_ops, BoundedReport& report);

}  // namespace lathe::reference
