// Where the bytes of each buffer are. A Buffer node has only an identity; this table gives it memory on its
// device when it is first needed, and takes the memory back when the node dies. What is alive can be listed
// with the place in the user's program that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/node.h"
#include "runtime/executor.h"

namespace lathe {

// The bytes of a buffer, taken from its device's pool if it has none yet. Throws OutOfMemory.
Place place_of(Node buffer);
bool has_memory(Node buffer);

// Gives a buffer memory that is not the pool's; `owner` runs when the buffer has died and no work uses the
// memory.
void import_memory(Node buffer, void* data, std::size_t bytes, Owner owner);

// Says, for buffers made on this thread while it lives, which place in the user's program they belong to.
class MadeAt {
 public:
  explicit MadeAt(std::string where);
  ~MadeAt();
  MadeAt(const MadeAt&) = delete;
  MadeAt& operator=(const MadeAt&) = delete;

  // Whether somebody has said so on this thread.
  static bool is_said();

 private:
  std::string outer_;
};

struct LiveBuffer {
  std::int64_t id = 0;
  std::string device;
  std::size_t bytes = 0;
  std::string made;  // "train.cpp:41", or empty if nobody said
};
// All memory that buffers hold, largest first.
std::vector<LiveBuffer> live_buffers();
// The same for people: one line per place and size, with the number of buffers and the sum.
std::string live_buffers_text(std::size_t most_lines = 20);

}  // namespace lathe
