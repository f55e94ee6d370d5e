#include "engine/in_flight.h"

#include <algorithm>
#include <utility>

#include "ir/build.h"
#include "ir/walk.h"

namespace lathe::engine {
namespace {

NodeMap<char> values_of(const Footprint& f) {
  NodeMap<char> out;
  for (const Node& target : f.targets) out[target] = 1;
  for (const auto& [version, here] : f.versions) out[version] = 1;
  return out;
}

NodeMap<char> written_by(const Footprint& f) {
  NodeMap<char> out;
  for (const auto& [version, here] : f.versions) out[base_memory(version)] = 1;
  return out;
}

}  // namespace

bool Footprint::conflicts_with(const Footprint& other) const {
  const NodeMap<char> values = values_of(*this), written = written_by(*this);
  for (const auto& [value, one] : values_of(other))
    if (values.contains(value)) return true;
  if (std::ranges::any_of(other.buffers, [&](Node buffer) { return written.contains(buffer); })) return true;
  const NodeMap<char> written_there = written_by(other);
  return std::ranges::any_of(buffers, [&](Node buffer) { return written_there.contains(buffer); });
}

bool InFlight::conflicts(const Footprint& mine) const {
  return std::ranges::any_of(runs_, [&](const Footprint* other) { return mine.conflicts_with(*other); });
}

InFlight::Run::Run(InFlight& all, const Footprint& mine, std::unique_lock<std::mutex>& lock)
    : all_(all), lock_(lock), place_(all.runs_.insert(all.runs_.end(), &mine)) {
  lock_.unlock();
}

void InFlight::Run::end() {
  if (!std::exchange(running_, false)) return;
  lock_.lock();
  all_.runs_.erase(place_);
  all_.ended_.notify_all();
}

}  // namespace lathe::engine
