// The step expand_scans: scans (Scan), values combined by an index (Scatter) and sorts (Sort) are expanded
// into ops that suit their device. The tensor graph is the same for every device; the expansion depends on
// sizes and on whether the device has few fast threads (cost.h). For example, the running sums of x (8, 4096)
//
//   Scan [Add, 1] (x)
//
// stay a Scan if one fast thread computes each row serially, and otherwise become sums over windows of 64,
// joined by the running sums of the window totals.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/node.h"

namespace lathe {

// The targets with all of these ops expanded. `fast_threads` returns Target::has_fast_threads() of a device.
std::vector<Node> expand_scans(std::span<const Node> targets, const std::string& default_device,
                               const std::function<bool(const std::string& device)>& fast_threads);

// out[..., i, ...] = x[..., 0, ...] to x[..., i, ...] combined. A long scan is cut into serial parts.
Node scan_in_pieces(Op op, Node x, std::size_t axis);

}  // namespace lathe
