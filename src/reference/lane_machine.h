// Runs the code of one store at many positions at once: every register holds a value per position (a lane),
// or a single one if all are equal, and floats (and integers that depend on them) also hold error bounds. A
// loop whose length differs by lane runs as long as the longest, with the other lanes masked. With fewer
// positions than lanes, several lanes share the long reduces of a position.
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
