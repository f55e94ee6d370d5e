// Shrinks a subject while it still fails in the same way: fewer options, stores, ranges, operations and
// elements, simpler dtypes, less memory, generated inputs.
#pragma once

#include <functional>
#include <span>

#include "investigate/subject.h"

namespace lathe::investigate {

// The first of these that still fails, or how many there are.
using FirstFailing = std::function<std::size_t(std::span<const Subject>)>;

// The subject itself must fail; the result does, too. So many smaller ones are asked about at a time.
Subject shrink(Subject subject, const FirstFailing& first_failing, std::size_t at_a_time = 1);

}  // namespace lathe::investigate
