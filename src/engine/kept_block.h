// Memory for what a kernel under check writes over. One check follows another, and most of what keeping such
// bytes costs is the system clearing fresh pages, so the block of the last check is used again by the next;
// in between the system may take its pages back.
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
