#include "engine/schedule_cache.h"

namespace lathe::engine {
namespace {

// A program with more different graphs than this makes them up as it goes; the oldest are then made again if
// needed.
constexpr std::size_t kMostEntries = 4096;

}  // namespace

ScheduleCache::Entry* ScheduleCache::entry_of(const GraphKey& key, const std::string& extra) {
  const auto [begin, end] = by_hash_.equal_range(key.hash);
  for (auto it = begin; it != end; ++it) {
    Entry& entry = *it->second;
    if (entry.words != key.words || entry.extra != extra) continue;
    entries_.splice(entries_.begin(), entries_, it->second);
    return &entry;
  }
  return nullptr;
}

std::shared_ptr<const PreparedSchedule> ScheduleCache::find(const GraphKey& key, const std::string& extra) {
  const Entry* entry = entry_of(key, extra);
  return entry != nullptr ? entry->prepared : nullptr;
}

void ScheduleCache::insert(const GraphKey& key, const std::string& extra,
                           std::shared_ptr<const PreparedSchedule> prepared) {
  if (Entry* known = entry_of(key, extra)) {
    known->prepared = std::move(prepared);
    return;
  }
  entries_.push_front({key.hash, key.words, extra, std::move(prepared)});
  by_hash_.emplace(key.hash, entries_.begin());
  if (entries_.size() <= kMostEntries) return;
  const auto last = std::prev(entries_.end());
  const auto [begin, stop] = by_hash_.equal_range(last->hash);
  for (auto it = begin; it != stop; ++it)
    if (it->second == last) {
      by_hash_.erase(it);
      break;
    }
  entries_.pop_back();
}

void ScheduleCache::clear() {
  by_hash_.clear();
  entries_.clear();
}

}  // namespace lathe::engine
