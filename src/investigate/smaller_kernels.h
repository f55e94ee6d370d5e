// Kernels that are a little smaller than one, of each kind a list: candidates of a shrinker, which asks
// whether they still fail. Some make no sense and cannot be made or compiled; that is found out when they are
// tried.
#pragma once

#include <functional>
#include <vector>

#include "investigate/subject.h"

namespace lathe::investigate {

using Candidates = std::vector<std::function<Node()>>;
using Smaller = Candidates (*)(Node kernel, const reference::Bindings& bindings);

Candidates effects_dropped(Node kernel, const reference::Bindings& bindings);
Candidates variables_bound(Node kernel, const reference::Bindings& bindings);
// A range of one step, and shorter ones.
Candidates ranges_dropped(Node kernel, const reference::Bindings& bindings);
Candidates ranges_shortened(Node kernel, const reference::Bindings& bindings);
// A value by a constant or by one of its operands.
Candidates nodes_replaced(Node kernel, const reference::Bindings& bindings);
Candidates gates_dropped(Node kernel, const reference::Bindings& bindings);
// float32 in place of other floats, int32 in place of other integers.
Candidates dtypes_plain(Node kernel, const reference::Bindings& bindings);
// Buffers without elements that nothing reaches.
Candidates memory_trimmed(Node kernel, const reference::Bindings& bindings);

// Slots without gaps; what is known of their contents moves along.
Node numbered(Node kernel, Subject& subject);

}  // namespace lathe::investigate
