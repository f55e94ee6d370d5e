// A smaller subject that fails in the same way: fewer options, stores, ranges, operations and elements, and
// simpler dtypes.
#pragma once

#include <functional>

#include "investigate/subject.h"

namespace lathe::investigate {

// Whether a candidate still fails as the subject does; false also where there is no time left.
using StillFails = std::function<bool(const Subject& candidate)>;

Subject shrink(Subject subject, const StillFails& fails);

}  // namespace lathe::investigate
