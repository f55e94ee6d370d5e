// The memory pool of a device. Freed blocks are kept by size and reused at once, even while earlier work
// still uses them: the executor orders new work after it. Only returning a block to the device waits.
// Allocated bytes are counted and limited by LATHE_MEMORY_LIMIT.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace lathe {

struct OpenDevice;

class MemoryPool {
 public:
  explicit MemoryPool(OpenDevice& owner) : owner_(owner) {}

  // A block of at least this many bytes; throws OutOfMemory. Its Memory::bytes is rounded(bytes).
  Memory take(std::size_t bytes);
  // Gives a block back to the pool.
  void give(const Memory& memory);
  // Gives kept blocks back to the device, all of them or until at most `keep` bytes are kept.
  void trim(std::size_t keep = 0);

  // Memory that is not the pool's own but counts as used (imported).
  void count_foreign(std::ptrdiff_t bytes);

  // The size a block really has. Planned sizes use it too, so plan and measurement agree.
  static std::size_t rounded(std::size_t bytes);

  std::size_t used() const;  // handed out now
  std::size_t peak() const;  // most that ever was, since the last reset
  std::size_t kept() const;  // free, not yet given back to the device
  void reset_peak();
  // Throws OutOfMemory if this many more bytes would pass the limit; takes nothing.
  void check_room(std::size_t bytes) const;

 private:
  Memory from_device(std::size_t bytes);

  OpenDevice& owner_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<Memory>> free_;  // by size
  std::size_t used_ = 0, peak_ = 0, kept_ = 0;
};

}  // namespace lathe
