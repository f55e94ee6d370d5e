#include "verify/aliasing.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace lathe::verify {
namespace {

bool takes_over(std::span<const PlacedBuffer> all, std::size_t later, std::size_t earlier) {
  const PlacedBuffer &b = all[later], &a = all[earlier];
  return b.in_place_of == static_cast<int>(earlier) && a.last == b.first && a.offset == b.offset &&
         b.bytes <= a.bytes;
}

std::string describe(const PlacedBuffer& b) {
  return fmt::format("buffer {} at [{}, {}) in steps {} to {}", b.id, b.offset, b.offset + b.bytes, b.first,
                     b.last);
}

}  // namespace

std::vector<std::string> check_placement(std::span<const PlacedBuffer> buffers) {
  std::vector<std::string> faults;
  struct Change {
    int step;
    bool begins;
    std::size_t which;
  };
  std::vector<Change> changes;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const PlacedBuffer& b = buffers[i];
    if (b.last < b.first)
      faults.push_back(
          fmt::format("buffer {} ends in step {} before it begins in {}", b.id, b.last, b.first));
    else if (b.offset + b.bytes < b.offset)
      faults.push_back(fmt::format("buffer {} ends beyond all memory", b.id));
    else if (b.bytes > 0) {
      changes.push_back({b.first, true, i});
      changes.push_back({b.last + 1, false, i});
    }
  }
  // Step by step, what ends goes before what begins is added; what is alive is kept by offset.
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    if (a.step != b.step) return a.step < b.step;
    if (a.begins != b.begins) return b.begins;
    return a.which < b.which;
  });
  std::map<int, std::multimap<std::size_t, std::size_t>> alive;  // arena -> offset -> buffer
  std::size_t largest = 0;
  for (const Change& c : changes) {
    const PlacedBuffer& b = buffers[c.which];
    auto& here = alive[b.arena];
    if (!c.begins) {
      auto [from, to] = here.equal_range(b.offset);
      here.erase(std::find_if(from, to, [&](const auto& entry) { return entry.second == c.which; }));
      continue;
    }
    auto at = here.lower_bound(b.offset >= largest ? b.offset - largest : 0);
    for (; at != here.end() && at->first < b.offset + b.bytes; ++at) {
      const PlacedBuffer& other = buffers[at->second];
      if (other.offset + other.bytes <= b.offset) continue;
      if (takes_over(buffers, c.which, at->second) || takes_over(buffers, at->second, c.which)) continue;
      faults.push_back(describe(b) + " shares bytes with " + describe(other));
    }
    largest = std::max(largest, b.bytes);
    here.emplace(b.offset, c.which);
  }
  return faults;
}

}  // namespace lathe::verify
