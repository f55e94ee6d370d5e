// Skips tiles of a running maximum (schedule/running_maximum.h) whose scores are all masked, since they
// change nothing: if a comparison of positions masks them, as in causal attention, the loop ends before the
// first one.
//
//   before   row: tile < 16:  s[key] = row < tile*128 + key ? -inf : ...
//   after    row: tile < min(16, row / 128 + 1): ...
#pragma once

#include "ir/node.h"
#include "ir/walk.h"

namespace lathe {

// Ranges of folds and what they become. The kernel has its final ranges.
NodeMap<Node> skipped_tiles(Node kernel);

}  // namespace lathe
