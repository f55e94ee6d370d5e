// The actions of the search: which option lists are one step away from a list. A step changes a size to a
// neighbouring one of a table, drops an option, exchanges two, or appends one; whatever the kernel or the
// target refuses, and whatever passes the limits, is left out. docs/search.md describes the space.
#pragma once

#include <span>
#include <vector>

#include "ir/node.h"
#include "lathe/options.h"
#include "search/limits.h"
#include "target/target.h"

namespace lathe::search {

// In an order that depends on the kernel and the list alone.
std::vector<std::vector<Opt>> neighbours(Node kernel, std::span<const Opt> list, const Target& target,
                                         const Limits& limits);

// Whether the kernel takes the list within the limits.
bool allowed(Node kernel, std::span<const Opt> list, const Target& target, const Limits& limits);

}  // namespace lathe::search
