// How far a kernel's results are off, row by row, for people to look at.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reference/bounded.h"

namespace lathe::investigate {

using Rows = std::vector<std::vector<double>>;

// What a slot holds less what it should, over rows as long as the innermost range of its store; of many
// elements the worst of each block.
Rows difference_map(Node kernel, const reference::Bindings& bindings,
                    std::span<const reference::Sample> samples, std::int64_t slot,
                    const reference::Array& after);

// As one word, and back.
std::string to_word(const Rows& rows);
Rows rows_of_word(const std::string& word);

}  // namespace lathe::investigate
