// The step expand_walks: running values (Scan), values combined by row (Scatter) and sorts (Sort) as the
// device that computes them is best at. A tensor graph says what is wanted, on whatever device; how depends
// on whether its threads are few and fast, and on sizes (cost.h). For example, of the running sums of x (8,
// 4096)
//
//   Scan [Add, 1] (x)
//
// stays as it is where a thread walks along each row, and elsewhere becomes sums of windows of 64, joined by
// the running sums of their totals.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/node.h"

namespace lathe {

// The targets with all of those expanded; `fast_threads` says of a device what its target says.
std::vector<Node> expand_walks(std::span<const Node> targets, const std::string& default_device,
                               const std::function<bool(const std::string& device)>& fast_threads);

// out[..., i, ...] = x[..., 0, ...] to x[..., i, ...] combined, in walks of no more steps than are worth it.
Node scan_in_pieces(Op op, Node x, std::size_t axis);

}  // namespace lathe
