// Re-checks a memory plan without knowing how it was made: two buffers that are alive in one step must not
// share a byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lathe::verify {

struct PlacedBuffer {
  std::int64_t id = 0;  // names it in messages
  int arena = 0;        // buffers of different arenas never share bytes
  std::size_t offset = 0, bytes = 0;
  int first = 0, last = 0;  // steps in which it is alive, both inclusive
  int in_place_of = -1;     // place in the list of the buffer whose bytes it may take over in its first step
};

// Every pair that shares bytes while both are alive, and every entry that makes no sense, in words. The one
// sharing allowed is a buffer that starts, in the very step that ends the one it is in place of, at the same
// offset and within its bytes. O(n log n + number of pairs that meet).
std::vector<std::string> check_placement(std::span<const PlacedBuffer> buffers);

}  // namespace lathe::verify
