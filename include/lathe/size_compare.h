// Symbolic sizes compared by what they mean.
#pragma once

#include "lathe/tensor.h"

namespace lathe {

// Whether both are the same polynomial of their variables, however they were written: i + j and j + i, or
// 2 * (i + 1) and 2 * i + 2. Where one is not symbolic, whether both are the same number. `==` only compares
// how they were made.
bool always_equal(const Size& a, const Size& b);

}  // namespace lathe
