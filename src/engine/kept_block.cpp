#include "engine/kept_block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace lathe::engine {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Taken at once, so that a larger check takes pages on top of those of smaller ones; they are only there
// once they are touched.
constexpr std::size_t kLeast = std::size_t{64} << 20;
// What the system may take back: giving it less costs more than it is worth.
constexpr std::size_t kWorthFreeing = std::size_t{4} << 20;

// The unused block, if there is one.
struct Spare {
  std::mutex mutex;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};
Spare& spare() {
  static auto* one = new Spare;  // never destroyed: checks may run until the process ends
  return *one;
}

std::byte* fresh(std::size_t bytes) {
  void* data = std::aligned_alloc(kHugePage, (bytes + kHugePage - 1) / kHugePage * kHugePage);
  if (data == nullptr) throw std::bad_alloc();
  madvise(data, bytes, MADV_HUGEPAGE);  // a wish
  return static_cast<std::byte*>(data);
}

}  // namespace

std::byte* KeptBlock::take(std::size_t bytes) {
  give_back();
  if (bytes == 0) return nullptr;
  used_ = bytes;
  {
    const std::lock_guard guard(spare().mutex);
    std::swap(data_, spare().data);
    std::swap(bytes_, spare().bytes);
  }
  if (bytes_ >= bytes) return data_;
  std::free(std::exchange(data_, nullptr));
  bytes_ = 0;
  const std::size_t wanted = std::max(bytes, kLeast);
  data_ = fresh(wanted);
  bytes_ = wanted;
  return data_;
}

void KeptBlock::give_back() {
  if (data_ == nullptr) return;
  if (used_ >= kWorthFreeing) madvise(data_, bytes_, MADV_FREE);
  {
    const std::lock_guard guard(spare().mutex);
    if (spare().bytes < bytes_) {
      std::swap(data_, spare().data);
      std::swap(bytes_, spare().bytes);
    }
  }
  std::free(std::exchange(data_, nullptr));
  bytes_ = 0;
}

}  // namespace lathe::engine
