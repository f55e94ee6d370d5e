// Checked memory: records which elements are initialized, and which thread accessed an element since which
// barrier. Two accesses of an element conflict if one of them writes and nothing orders them: they come from
// different groups, or from different threads of a group without a barrier in between.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "reference/array.h"

namespace lathe::reference {

// Who accesses: a group (a hash of the unordered loops around the access, never 0), a thread of it, and how
// many barriers the group has passed.
struct Agent {
  std::uint32_t group = 1;
  std::uint16_t thread = 0;
  std::uint32_t epoch = 0;
};

class WatchedMemory {
 public:
  WatchedMemory(DType dtype, std::byte* data, std::int64_t size);

  void watch_initialised();  // from now on only written elements hold something
  void watch_accesses();     // conflicts are looked for
  void keep_first();         // remembers the contents as they are now
  void forget();             // resets: nothing is written or accessed

  std::int64_t size() const { return size_; }
  bool is_set(std::int64_t i) const { return set_.empty() || set_[static_cast<std::size_t>(i)]; }
  bool was_written(std::int64_t i) const { return writes_ != nullptr && writes_[i].group != 0; }
  Cell read(std::int64_t i) const { return read_(data_ + i * width_); }
  Cell read_first(std::int64_t i) const {
    return read_(first_.empty() ? data_ + i * width_ : first_.data() + i * width_);
  }
  void write(std::int64_t i, Cell v) {
    write_(data_ + i * width_, v);
    if (!set_.empty()) set_[static_cast<std::size_t>(i)] = true;
  }

  // An element that a pending copy will write must not be accessed.
  bool is_in_flight(std::int64_t i) const {
    return !in_flight_.empty() && in_flight_[static_cast<std::size_t>(i)];
  }
  void set_in_flight(std::int64_t i, bool flies) {
    if (in_flight_.empty()) in_flight_.assign(static_cast<std::size_t>(size_), false);
    in_flight_[static_cast<std::size_t>(i)] = flies;
  }
  // How many fences its writer had passed when it wrote an element, and who that was.
  struct LastWrite {
    std::uint16_t thread = 0;
    std::uint32_t fences = 0;
  };
  void note_fences(std::int64_t i, std::uint32_t fences) {
    if (fences_.empty()) fences_.assign(static_cast<std::size_t>(size_), 0);
    fences_[static_cast<std::size_t>(i)] = fences;
  }
  LastWrite last_write(std::int64_t i) const {
    return {writes_ != nullptr ? writes_[i].thread : std::uint16_t{0},
            fences_.empty() ? 0 : fences_[static_cast<std::size_t>(i)]};
  }

  // A bulk copy writes an element: afterwards only threads that waited for that phase of its barrier may
  // access it. Barriers count from 1.
  struct Arrival {
    std::uint32_t barrier = 0, phase = 0;
  };
  void note_arrival(std::int64_t i, Arrival arrival) {
    if (arrivals_.empty()) arrivals_.assign(static_cast<std::size_t>(size_), {});
    arrivals_[static_cast<std::size_t>(i)] = arrival;
  }
  Arrival arrival(std::int64_t i) const {
    return arrivals_.empty() ? Arrival() : arrivals_[static_cast<std::size_t>(i)];
  }
  // `known`: how many arrivals of each thread its own thread knows of.
  bool note_bulk(std::int64_t i, Agent who, const std::vector<std::uint32_t>& known);
  // A unit reads an element for a thread that has made so many arrivals.
  bool note_unit_read(std::int64_t i, Agent who, std::uint32_t arrivals);

  // Notes an access; true if it conflicts with an earlier one.
  bool note_read(std::int64_t i, Agent who);
  bool note_write(std::int64_t i, Agent who);

 private:
  struct Access {
    std::uint32_t group;  // 0: none
    std::uint16_t thread;
    std::uint16_t several;  // bits: kThreads of one epoch, kGroups
    std::uint32_t epoch;
  };
  static constexpr std::uint16_t kThreads = 1, kGroups = 2;
  static bool unordered(const Access& a, Agent who) {
    if (a.group == 0) return false;
    if (a.several & kGroups || a.group != who.group) return true;
    return a.epoch == who.epoch && (a.thread != who.thread || (a.several & kThreads) != 0);
  }
  struct UnitRead {
    std::uint16_t thread;
    std::uint32_t arrivals, epoch;
  };
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  // Zeroed by the system page by page, so that watching a large output that is only sampled costs little.
  using Accesses = std::unique_ptr<Access[], Free>;
  Accesses no_accesses() const;

  std::byte* data_;
  std::int64_t size_;
  int width_;
  Reader read_;
  Writer write_;
  std::vector<bool> set_, in_flight_;
  std::vector<std::uint32_t> fences_;
  std::vector<Arrival> arrivals_;
  std::vector<std::vector<UnitRead>> unit_reads_;
  std::vector<std::byte> first_;
  Accesses writes_, reads_;
};

}  // namespace lathe::reference
