#include "runtime/race_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {
namespace {

// For each queue, how many of its works have surely ended.
using Clock = std::vector<std::uint64_t>;

void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size(), 0);
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

std::uint64_t at(const Clock& clock, int queue) {
  const auto i = static_cast<std::size_t>(queue);
  return i < clock.size() ? clock[i] : 0;
}

void raise_to(Clock& clock, WorkPoint point) {
  const auto i = static_cast<std::size_t>(point.queue);
  if (clock.size() <= i) clock.resize(i + 1, 0);
  clock[i] = std::max(clock[i], point.number);
}

// Some bytes that both touch while at least one writes; empty if there are none.
ByteRange conflict(const WorkRecord& a, const WorkRecord& b) {
  auto common = [](const std::vector<ByteRange>& xs, const std::vector<ByteRange>& ys) {
    for (const ByteRange& x : xs)
      for (const ByteRange& y : ys)
        if (x.overlaps(y)) return ByteRange{x.space, std::max(x.begin, y.begin), std::min(x.end, y.end)};
    return ByteRange{};
  };
  for (const ByteRange& found :
       {common(a.writes, b.writes), common(a.writes, b.reads), common(a.reads, b.writes)})
    if (found.begin < found.end) return found;
  return {};
}

}  // namespace

// What a work knows to have ended before it starts: everything its queue knew, everything its waits bring,
// and whatever the host had waited for when it gave the work out.
std::vector<Race> find_races(std::span<const WorkRecord> log) {
  std::vector<Race> races;
  struct Line {
    std::uint64_t first = 0;  // number of ends.front(): the log may begin in the middle
    std::vector<Clock> ends;  // known once each work has ended
  };
  std::vector<Line> lines;         // by queue
  std::vector<std::size_t> works;  // positions of works in the log
  Clock host;
  auto known_after = [&](WorkPoint point) -> const Clock* {
    const auto queue = static_cast<std::size_t>(point.queue);
    if (queue >= lines.size() || point.number < lines[queue].first) return nullptr;
    const std::uint64_t i = point.number - lines[queue].first;
    return i < lines[queue].ends.size() ? &lines[queue].ends[i] : nullptr;
  };

  for (std::size_t i = 0; i < log.size(); ++i) {
    const WorkRecord& record = log[i];
    if (record.host_wait) {
      if (const Clock* known = known_after(record.point)) join(host, *known);
      continue;
    }
    Clock clock = host;
    if (const Clock* before = known_after({record.point.queue, record.point.number - 1}))
      join(clock, *before);
    for (const WorkPoint& wait : record.after)
      if (const Clock* known = known_after(wait)) join(clock, *known);

    for (const std::size_t earlier : works) {
      const WorkRecord& other = log[earlier];
      if (at(clock, other.point.queue) >= other.point.number) continue;
      const ByteRange bytes = conflict(other, record);
      if (bytes.begin < bytes.end) races.push_back({earlier, i, bytes});
    }

    raise_to(clock, record.point);
    const auto queue = static_cast<std::size_t>(record.point.queue);
    if (lines.size() <= queue) lines.resize(queue + 1);
    if (lines[queue].ends.empty()) lines[queue].first = record.point.number;
    lines[queue].ends.push_back(std::move(clock));
    works.push_back(i);
  }
  return races;
}

std::string to_string(const Race& race, std::span<const WorkRecord> log) {
  auto describe = [](const WorkRecord& work) {
    return fmt::format("{} (queue {}, work {})", work.name, work.point.queue, work.point.number);
  };
  return fmt::format("{} and {} access bytes {}..{} of space {} unordered", describe(log[race.second]),
                     describe(log[race.first]), race.bytes.begin, race.bytes.end, race.bytes.space);
}

}  // namespace lathe
