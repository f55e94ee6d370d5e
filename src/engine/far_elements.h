// Reads single elements of memory that the host does not reach: a kernel of the device puts them side by
// side, and only those are copied.
#pragma once

#include <cstdint>
#include <span>

#include "reference/array.h"
#include "runtime/executor.h"

namespace lathe::engine {

// Adds these elements, each of so many bytes, to those that were fetched; `elements` is ascending and inside
// of the place.
void fetch_elements(OpenDevice& device, const Place& from, std::size_t width,
                    std::span<const std::int64_t> elements, reference::FetchedElements& to);

}  // namespace lathe::engine
