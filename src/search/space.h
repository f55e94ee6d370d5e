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

// By kind of step (a size changed, one dropped, two exchanged, then one kind for each option that can be
// appended), so that a kind with many members does not crowd out the others. The order depends on the kernel
// and the list alone.
using StepKinds = std::vector<std::vector<std::vector<Opt>>>;
StepKinds neighbours(Node kernel, std::span<const Opt> list, const Target& target, const Limits& limits);

// Lists to begin with besides the default: what the heuristic would choose if a fact of the target were
// another (a cache of half or twice the size, fewer registers, ...). Each is whole and coherent, where a step
// from the default often is not.
std::vector<std::vector<Opt>> starting_lists(Node kernel, const Target& target, const Limits& limits);

// Whether the kernel takes the list within the limits.
bool allowed(Node kernel, std::span<const Opt> list, const Target& target, const Limits& limits);

}  // namespace lathe::search
