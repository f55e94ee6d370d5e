// Comparison of symbolic sizes by value.
#pragma once

#include "lathe/tensor.h"

namespace lathe {

// Whether both are the same polynomial of their variables, such as i + j and j + i, or 2 * (i + 1) and 2 * i
// + 2. If neither is symbolic, whether they are the same number. `==` compares expressions as they were
// built.
bool always_equal(const Size& a, const Size& b);

}  // namespace lathe
