#include "reference/memory.h"

#include <algorithm>
#include <new>

namespace lathe::reference {

WatchedMemory::WatchedMemory(DType dtype, std::byte* data, std::int64_t size)
    : data_(data), size_(size), width_(dtype.bytes()), read_(reader_of(dtype)), write_(writer_of(dtype)) {}

WatchedMemory::Accesses WatchedMemory::no_accesses() const {
  void* p = std::calloc(static_cast<std::size_t>(std::max<std::int64_t>(size_, 1)), sizeof(Access));
  if (p == nullptr) throw std::bad_alloc();
  return Accesses(static_cast<Access*>(p));
}

void WatchedMemory::watch_initialised() { set_.assign(static_cast<std::size_t>(size_), false); }

void WatchedMemory::watch_accesses() {
  writes_ = no_accesses();
  reads_ = no_accesses();
}

void WatchedMemory::keep_first() { first_.assign(data_, data_ + size_ * width_); }

void WatchedMemory::forget() {
  if (!set_.empty()) set_.assign(set_.size(), false);
  in_flight_.assign(in_flight_.size(), false);
  arrivals_.assign(arrivals_.size(), {});
  unit_reads_.assign(unit_reads_.size(), {});
  if (writes_ != nullptr) std::fill_n(writes_.get(), size_, Access{});
  if (reads_ != nullptr) std::fill_n(reads_.get(), size_, Access{});
}

bool WatchedMemory::note_read(std::int64_t i, Agent who) {
  if (writes_ == nullptr) return false;
  Access& r = reads_[i];
  if (r.group == 0)
    r = {who.group, who.thread, 0, who.epoch};
  else if (r.group != who.group)
    r.several |= kGroups;
  else if (r.epoch != who.epoch)
    r = {who.group, who.thread, static_cast<std::uint16_t>(r.several & kGroups), who.epoch};
  else if (r.thread != who.thread)
    r.several |= kThreads;
  return unordered(writes_[i], who);
}

bool WatchedMemory::note_write(std::int64_t i, Agent who) {
  if (writes_ == nullptr) return false;
  bool conflict = unordered(writes_[i], who) || unordered(reads_[i], who);
  if (!unit_reads_.empty())
    for (const UnitRead& r : unit_reads_[static_cast<std::size_t>(i)])
      conflict |= r.epoch == who.epoch && r.thread != who.thread;
  writes_[i] = {who.group, who.thread, 0, who.epoch};
  if (!arrivals_.empty()) arrivals_[static_cast<std::size_t>(i)] = {};
  return conflict;
}

bool WatchedMemory::note_unit_read(std::int64_t i, Agent who, std::uint32_t arrivals) {
  if (writes_ == nullptr) return false;
  if (unit_reads_.empty()) unit_reads_.resize(static_cast<std::size_t>(size_));
  std::vector<UnitRead>& reads = unit_reads_[static_cast<std::size_t>(i)];
  const auto same =
      std::find_if(reads.begin(), reads.end(), [&](const UnitRead& r) { return r.thread == who.thread; });
  if (same == reads.end())
    reads.push_back({who.thread, arrivals, who.epoch});
  else
    *same = {who.thread, arrivals, who.epoch};
  return unordered(writes_[i], who);
}

bool WatchedMemory::note_bulk(std::int64_t i, Agent who, const std::vector<std::uint32_t>& known) {
  bool conflict = false;
  if (!unit_reads_.empty()) {
    std::vector<UnitRead>& reads = unit_reads_[static_cast<std::size_t>(i)];
    for (const UnitRead& r : reads)
      conflict |= r.epoch == who.epoch && r.thread != who.thread &&
                  !(r.thread < known.size() && known[r.thread] > r.arrivals);
    reads.clear();
  }
  conflict |= note_write(i, who);
  if (writes_ != nullptr) writes_[i] = reads_[i] = {};
  return conflict;
}

}  // namespace lathe::reference
