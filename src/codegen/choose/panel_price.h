// Sizes of panels, shared by the files that plan products.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/kernel/panel_layout.h"
#include "ir/walk.h"

namespace lathe {

// The steps of an even division of `extent` into blocks of at most `most`: without a rest where blocks of
// more than half that size have none, because a rest is a gate on everything; else all but the last alike.
std::int64_t even_block(std::int64_t extent, double most);

// Elements of a panel in the order of its source where each range has `extents` of its steps in it.
double source_elements(const std::vector<PanelAxis>& axes, const NodeMap<double>& extents);

}  // namespace lathe
