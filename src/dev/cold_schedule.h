// The schedule of what realizing some tensors would compute, as the engine makes it, with no cache.
#pragma once

#include <span>
#include <vector>

#include "lathe/tensor.h"
#include "runtime/devices.h"
#include "schedule/schedule.h"

namespace lathe::dev {

// Also gives the stand-ins of the buffers the graph came with.
Schedule schedule_cold(std::span<const Node> targets, const OpenDevice& device, std::vector<Node>& stand_ins);

std::vector<Node> nodes_of(const std::vector<Tensor>& tensors);

}  // namespace lathe::dev
