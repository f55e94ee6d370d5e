// Runs pending work before memory changes outside the graph: by a replay, or a write to a file.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/impl.h"

namespace lathe {

// A pending store.
bool is_pending_store(Node value);

// Values of live storages with their devices. Realized as one graph with the tensors, through storages of
// their own: whoever holds an equal value gets the result.
using LiveValues = std::vector<std::pair<NodeRef, std::string>>;
void realize_values(const LiveValues& values, std::span<const Tensor> tensors);

// Stores that were asked for and not done yet are done, and so is every value still to be computed that reads
// one of these buffers.
void settle_memory(std::span<const NodeRef> about_to_change);

}  // namespace lathe
