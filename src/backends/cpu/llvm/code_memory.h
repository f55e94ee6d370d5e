// Memory for the machine code and constants of all loaded kernels. The operating system limits the number of
// mappings of a process (65,530 by default), so kernels do not get mappings of their own: they are carved out
// of large regions in which neighbouring pages have the same protection and therefore count as one mapping.
// Code is writable while it is linked and executable afterwards, never both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace lathe::backends {

// Free blocks of one half of a region, and where its untouched part begins.
class BlockList {
 public:
  BlockList() = default;
  BlockList(std::size_t bytes, std::size_t granule) : bytes_(bytes), granule_(granule) {}
  // Offset of a block, a multiple of the granule, or kNone where there is no room.
  std::size_t take(std::size_t bytes);
  void release(std::size_t offset, std::size_t bytes);
  std::size_t used_up_to() const { return top_; }
  std::size_t rounded(std::size_t bytes) const { return (bytes + granule_ - 1) / granule_ * granule_; }

  static constexpr std::size_t kNone = ~std::size_t{0};

 private:
  std::size_t bytes_ = 0, granule_ = 1, top_ = 0;
  std::map<std::size_t, std::size_t> free_;  // offset to size, below top_; no two blocks touch
};

struct CodeRegion;

// What one kernel holds: a block of code and one of data, in the same region, so that they reach each other
// with 32-bit distances.
struct KernelMemory {
  struct Block {
    std::size_t offset = 0, bytes = 0, used = 0;
  };
  CodeRegion* region = nullptr;
  Block code, data;
};

// All regions of the process. The caller serializes the calls.
class CodeMemory {
 public:
  CodeMemory();
  ~CodeMemory();
  // Room for the sections of an object file of this size, writable. False where the operating system refuses:
  // a linker that runs out of memory later ends the process.
  bool reserve(KernelMemory& kernel, std::size_t object_bytes);
  // A part of it. Null where more is asked for than was reserved.
  static std::uint8_t* take_code(KernelMemory& kernel, std::size_t bytes, std::size_t alignment);
  static std::uint8_t* take_data(KernelMemory& kernel, std::size_t bytes, std::size_t alignment);
  // Makes the code executable and releases what was reserved and not taken.
  bool seal(KernelMemory& kernel);
  void release(KernelMemory& kernel);

 private:
  CodeRegion* region_with_room(std::size_t code_bytes, std::size_t data_bytes);

  std::vector<std::unique_ptr<CodeRegion>> regions_;
};

}  // namespace lathe::backends
