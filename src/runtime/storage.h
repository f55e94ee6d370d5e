// The memory of each buffer. A Buffer node is only an identity; this table allocates memory on its device
// when it is first needed, and frees it when the node dies. Live buffers can be listed with the place in the
// user's program that made them (lathe/memory.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/node.h"
#include "lathe/memory.h"
#include "runtime/executor.h"

namespace lathe {

// The bytes of a buffer, taken from its device's pool if it has none yet. Throws OutOfMemory.
Place place_of(Node buffer);
bool has_memory(Node buffer);
bool has_memory(std::int64_t buffer_id);

// Gives a buffer memory that is not the pool's; `owner` runs when the buffer has died and no work uses the
// memory.
void import_memory(Node buffer, void* data, std::size_t bytes, Owner owner);

// Says which place in the user's program a buffer belongs to, where it has memory. Without this it is the one
// that was current when it got its memory.
void set_made(Node buffer, PlaceRef place);

}  // namespace lathe
