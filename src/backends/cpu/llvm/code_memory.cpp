#include "backends/cpu/llvm/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace lathe::backends {
namespace {

// Address space, which costs nothing until it is used: enough for some hundred thousand kernels. A process
// that may not have that much gets smaller regions.
constexpr std::size_t kRegionBytes = std::size_t{1} << 30;
constexpr std::size_t kSmallestRegion = std::size_t{8} << 20;
constexpr std::size_t kDataGranule = 64;                 // the widest vector, and a line of cache
constexpr std::size_t kDataStep = std::size_t{1} << 20;  // data that is made accessible at a time
// Sections are padded to their alignment. Jumps to functions of this process take less than the relocations
// that ask for them.
constexpr std::size_t kPadding = 4096;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

std::size_t BlockList::take(std::size_t bytes) {
  bytes = rounded(bytes);
  for (auto [begin, size] : free_) {
    if (bytes > size) continue;
    free_.erase(begin);
    if (bytes < size) free_.emplace(begin + bytes, size - bytes);
    return begin;
  }
  if (bytes > bytes_ - top_) return kNone;
  top_ += bytes;
  return top_ - bytes;
}

void BlockList::release(std::size_t offset, std::size_t bytes) {
  bytes = rounded(bytes);
  if (bytes == 0) return;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin())
    if (auto before = std::prev(next); before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  if (offset + bytes == top_)
    top_ = offset;
  else
    free_.emplace(offset, bytes);
}

// Code in the first half, data in the second.
struct CodeRegion {
  std::uint8_t* memory = nullptr;
  std::size_t bytes = 0;
  BlockList code, data;
  std::size_t accessible = 0;  // bytes of data

  std::uint8_t* code_at(std::size_t offset) const { return memory + offset; }
  std::uint8_t* data_at(std::size_t offset) const { return memory + bytes / 2 + offset; }
};

namespace {

std::uint8_t* take(KernelMemory::Block& block, std::uint8_t* begin, std::size_t bytes,
                   std::size_t alignment) {
  const std::size_t beyond =
      (reinterpret_cast<std::uintptr_t>(begin) + block.used) % std::max<std::size_t>(alignment, 1);
  const std::size_t at = block.used + (beyond != 0 ? alignment - beyond : 0);
  if (at > block.bytes || bytes > block.bytes - at) return nullptr;
  block.used = at + bytes;
  return begin + at;
}

// Keeps what was used; blocks begin and end at multiples of their list's granule.
void trim(BlockList& list, KernelMemory::Block& block) {
  const std::size_t kept = list.rounded(block.used);
  list.release(block.offset + kept, block.bytes - kept);
  block.bytes = kept;
}

}  // namespace

CodeMemory::CodeMemory() = default;

CodeMemory::~CodeMemory() {
  for (const auto& region : regions_) munmap(region->memory, region->bytes);
}

CodeRegion* CodeMemory::region_with_room(std::size_t code_bytes, std::size_t data_bytes) {
  if (!regions_.empty()) {
    const CodeRegion& last = *regions_.back();
    const std::size_t half = last.bytes / 2;
    if (last.code.used_up_to() + code_bytes <= half && last.data.used_up_to() + data_bytes <= half)
      return regions_.back().get();
  }
  const std::size_t least = std::max(kSmallestRegion, 2 * std::max(code_bytes, data_bytes));
  for (std::size_t bytes = std::max(kRegionBytes, least); bytes >= least; bytes /= 2) {
    void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    auto region = std::make_unique<CodeRegion>();
    region->memory = static_cast<std::uint8_t*>(memory);
    region->bytes = bytes;
    region->code = BlockList(bytes / 2, page_bytes());
    region->data = BlockList(bytes / 2, kDataGranule);
    regions_.push_back(std::move(region));
    return regions_.back().get();
  }
  return nullptr;
}

bool CodeMemory::reserve(KernelMemory& kernel, std::size_t object_bytes) {
  const std::size_t bytes = (object_bytes + kPadding + page_bytes() - 1) / page_bytes() * page_bytes();
  CodeRegion* region = region_with_room(bytes, bytes);
  if (region == nullptr) return false;
  kernel.region = region;
  kernel.code = {region->code.take(bytes), bytes, 0};
  kernel.data = {region->data.take(bytes), bytes, 0};
  bool writable = mprotect(region->code_at(kernel.code.offset), bytes, PROT_READ | PROT_WRITE) == 0;
  if (const std::size_t end = region->data.used_up_to(); writable && end > region->accessible) {
    const std::size_t wanted = std::min(region->bytes / 2, (end + kDataStep - 1) / kDataStep * kDataStep);
    writable = mprotect(region->data_at(region->accessible), wanted - region->accessible,
                        PROT_READ | PROT_WRITE) == 0;
    if (writable) region->accessible = wanted;
  }
  if (!writable) release(kernel);
  return writable;
}

std::uint8_t* CodeMemory::take_code(KernelMemory& kernel, std::size_t bytes, std::size_t alignment) {
  return take(kernel.code, kernel.region->code_at(kernel.code.offset), bytes, alignment);
}

std::uint8_t* CodeMemory::take_data(KernelMemory& kernel, std::size_t bytes, std::size_t alignment) {
  return take(kernel.data, kernel.region->data_at(kernel.data.offset), bytes, alignment);
}

bool CodeMemory::seal(KernelMemory& kernel) {
  trim(kernel.region->code, kernel.code);
  trim(kernel.region->data, kernel.data);
  if (kernel.code.bytes == 0) return true;
  return mprotect(kernel.region->code_at(kernel.code.offset), kernel.code.bytes, PROT_READ | PROT_EXEC) == 0;
}

void CodeMemory::release(KernelMemory& kernel) {
  if (kernel.region == nullptr) return;
  kernel.region->code.release(kernel.code.offset, kernel.code.bytes);
  kernel.region->data.release(kernel.data.offset, kernel.data.bytes);
  kernel = {};
}

}  // namespace lathe::backends
