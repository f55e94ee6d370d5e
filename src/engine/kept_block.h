// Memory for copies of what a kernel under check overwrites. Most of the cost of such a copy is the system
// clearing fresh pages, so the next check reuses the block of the last one; in between the system may reclaim
// its pages.
#pragma once

#include <cstddef>

namespace lathe::engine {

class KeptBlock {
 public:
  KeptBlock() = default;
  ~KeptBlock() { give_back(); }
  KeptBlock(const KeptBlock&) = delete;
  KeptBlock& operator=(const KeptBlock&) = delete;

  // At least so many bytes, with any contents, until the next call; null for none.
  std::byte* take(std::size_t bytes);

 private:
  void give_back();

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0, used_ = 0;
};

}  // namespace lathe::engine
