// Reads single elements of memory that the host cannot access: a kernel on the device gathers them into a
// contiguous buffer, and only that is copied.
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
