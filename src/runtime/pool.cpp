#include "runtime/pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/env.h"
#include "base/error.h"
#include "base/text.h"
#include "runtime/devices.h"
#include "runtime/executor.h"

namespace lathe {
namespace {

// Free blocks that may be kept even if little is in use, so that small programs never go to the device twice.
constexpr std::size_t kAlwaysKeep = std::size_t{64} << 20;

}  // namespace

// Blocks are whole cache lines, large ones whole pages: sizes that differ by a few bytes share blocks, and at
// most a thousandth of a large block is lost.
std::size_t MemoryPool::rounded(std::size_t bytes) {
  const std::size_t unit = bytes >= (std::size_t{4} << 20) ? 4096 : 256;
  return std::max(unit, (bytes + unit - 1) / unit * unit);
}

Memory MemoryPool::take(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  check_room(size);
  {
    std::lock_guard guard(mutex_);
    if (auto list = free_.find(size); list != free_.end() && !list->second.empty()) {
      const Memory memory = list->second.back();
      list->second.pop_back();
      kept_ -= size;
      used_ += size;
      peak_ = std::max(peak_, used_);
      return memory;
    }
  }
  const Memory memory = from_device(size);
  std::lock_guard guard(mutex_);
  used_ += size;
  peak_ = std::max(peak_, used_);
  return memory;
}

// Kept blocks count against the limit too, so they go first.
Memory MemoryPool::from_device(std::size_t bytes) {
  if (const auto limit = static_cast<std::size_t>(flag_number(Flag::MemoryLimit)); limit != 0) {
    const std::size_t in_use = used();
    if (in_use + kept() + bytes > limit) trim(limit > in_use + bytes ? limit - in_use - bytes : 0);
  }
  Memory memory;
  try {
    memory = owner_.device->alloc(bytes);
  } catch (const OutOfMemory&) {
    if (kept() == 0) throw;
    trim();
    memory = owner_.device->alloc(bytes);
  }
  memory.bytes = bytes;
  return memory;
}

void MemoryPool::give(const Memory& memory) {
  std::size_t keep = 0;
  {
    std::lock_guard guard(mutex_);
    used_ -= memory.bytes;
    kept_ += memory.bytes;
    free_[memory.bytes].push_back(memory);
    keep = std::max(kAlwaysKeep, peak_);
    if (kept_ <= keep) return;
  }
  trim(keep / 2);
}

void MemoryPool::trim(std::size_t keep) {
  std::vector<Memory> going;
  {
    std::lock_guard guard(mutex_);
    for (auto list = free_.rbegin(); list != free_.rend() && kept_ > keep; ++list)
      for (; !list->second.empty() && kept_ > keep; list->second.pop_back()) {
        going.push_back(list->second.back());
        kept_ -= list->first;
      }
  }
  for (const Memory& memory : going) {
    executor().wait_unused(owner_, {memory, 0, memory.bytes});
    owner_.device->free(memory);
  }
}

void MemoryPool::count_foreign(std::ptrdiff_t bytes) {
  std::lock_guard guard(mutex_);
  used_ += static_cast<std::size_t>(bytes);
  peak_ = std::max(peak_, used_);
}

void MemoryPool::check_room(std::size_t bytes) const {
  const auto limit = static_cast<std::size_t>(flag_number(Flag::MemoryLimit));
  const std::size_t in_use = used();
  if (limit == 0 || in_use + bytes <= limit) return;
  throw OutOfMemory("memory", fmt::format("{} has no room for {}: {} of {} are in use", owner_.text,
                                          human_bytes(bytes), human_bytes(in_use), human_bytes(limit)))
      .note(fmt::format("LATHE_MEMORY_LIMIT is {}", flag_text(Flag::MemoryLimit)));
}

std::size_t MemoryPool::used() const {
  std::lock_guard guard(mutex_);
  return used_;
}
std::size_t MemoryPool::peak() const {
  std::lock_guard guard(mutex_);
  return peak_;
}
std::size_t MemoryPool::kept() const {
  std::lock_guard guard(mutex_);
  return kept_;
}
void MemoryPool::reset_peak() {
  std::lock_guard guard(mutex_);
  peak_ = used_;
}

}  // namespace lathe
