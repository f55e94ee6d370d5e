#include "runtime/ordering.h"

#include "base/planted.h"

#include <algorithm>
#include <atomic>
#include <iterator>

namespace lathe {
namespace {

template <class Clock>
void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size(), 0);
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

template <class Clock>
std::uint64_t at(const Clock& clock, int queue) {
  const auto i = static_cast<std::size_t>(queue);
  return i < clock.size() ? clock[i] : 0;
}

}  // namespace

int Ordering::add_queue() {
  lines_.emplace_back();
  host_.resize(lines_.size(), 0);
  return static_cast<int>(lines_.size()) - 1;
}

WorkPoint Ordering::last(int queue) const { return {queue, lines_[static_cast<std::size_t>(queue)].last}; }

std::size_t Ordering::segments() const {
  std::size_t count = 0;
  for (const auto& [space, segments] : spaces_) count += segments.size();
  return count;
}

Ordering::Entered Ordering::enter(int queue, std::span<const ByteRange> reads,
                                  std::span<const ByteRange> writes) {
  Line& line = lines_[static_cast<std::size_t>(queue)];
  const WorkPoint point{queue, ++line.last};
  Clock needed;
  needed.resize(lines_.size(), 0);
  for (const ByteRange& range : reads) read(range, point, needed);
  for (const ByteRange& range : writes) write(range, point, needed);

  Entered result{point, reduce(needed, queue)};
  if (planted(Fault::MissingWait)) result.after.clear();
  join(line.known, host_);
  for (const WorkPoint& wait : result.after)
    if (const Clock* known = implied(wait)) join(line.known, *known);
  // Whoever orders the work believes in it.
  if (planted(Fault::EarlyWait) && !result.after.empty()) {
    static std::atomic<bool> first{true};
    if (first.exchange(false)) result.after.clear();
  }
  if (line.known.size() < lines_.size()) line.known.resize(lines_.size(), 0);
  line.known[static_cast<std::size_t>(queue)] = point.number;
  line.ends.push_back(line.known);
  if (++entered_ % 256 == 0 && prune_at_ < segments()) forget_ended();
  return result;
}

void Ordering::need(Clock& needed, WorkPoint point) const {
  if (point.number == 0) return;
  auto& number = needed[static_cast<std::size_t>(point.queue)];
  number = std::max(number, point.number);
}

// Makes `at` a border between segments, if it is inside one.
void Ordering::split(Segments& segments, std::uint64_t at) {
  auto next = segments.upper_bound(at);
  if (next == segments.begin()) return;
  auto inside = std::prev(next);
  if (inside->first == at || inside->second.end <= at) return;
  Segment right = inside->second;
  inside->second.end = at;
  segments.emplace(at, std::move(right));
}

void Ordering::read(const ByteRange& range, WorkPoint point, Clock& needed) {
  if (range.begin >= range.end) return;
  Segments& segments = spaces_[range.space];
  split(segments, range.begin);
  split(segments, range.end);
  std::uint64_t begin = range.begin;
  for (auto it = segments.lower_bound(range.begin); begin < range.end;) {
    if (it == segments.end() || it->first > begin) {  // a gap: bytes without accesses
      const std::uint64_t end = it == segments.end() ? range.end : std::min(range.end, it->first);
      it = std::next(segments.emplace_hint(it, begin, Segment{end, {}, {point}}));
      begin = end;
      continue;
    }
    Segment& segment = it->second;
    need(needed, segment.write);
    auto same_queue = std::find_if(segment.reads.begin(), segment.reads.end(),
                                   [&](const WorkPoint& p) { return p.queue == point.queue; });
    if (same_queue != segment.reads.end())
      same_queue->number = point.number;  // the later one of a queue implies the earlier
    else
      segment.reads.push_back(point);
    begin = segment.end;
    ++it;
  }
}

void Ordering::write(const ByteRange& range, WorkPoint point, Clock& needed) {
  if (range.begin >= range.end) return;
  Segments& segments = spaces_[range.space];
  split(segments, range.begin);
  split(segments, range.end);
  auto first = segments.lower_bound(range.begin), last = first;
  for (; last != segments.end() && last->first < range.end; ++last) {
    need(needed, last->second.write);
    for (const WorkPoint& reader : last->second.reads)
      if (reader != point) need(needed, reader);
  }
  segments.erase(first, last);
  segments.emplace(range.begin, Segment{range.end, point, {}});
}

// What the end of a work implies; nothing is kept for works the host has seen end.
const Ordering::Clock* Ordering::implied(WorkPoint point) const {
  const Line& line = lines_[static_cast<std::size_t>(point.queue)];
  if (point.number < line.first || point.number >= line.first + line.ends.size()) return nullptr;
  return &line.ends[point.number - line.first];
}

// Drops what the queue's order, the host or another wait already implies. "Ends no earlier than" is a partial
// order, so what is left is the one smallest set.
std::vector<WorkPoint> Ordering::reduce(const Clock& needed, int queue) const {
  const Clock& known = lines_[static_cast<std::size_t>(queue)].known;
  std::vector<WorkPoint> open;
  for (int q = 0; q < queues(); ++q) {
    const std::uint64_t number = at(needed, q);
    if (number == 0 || q == queue || number <= at(host_, q) || number <= at(known, q)) continue;
    open.push_back({q, number});
  }
  std::vector<WorkPoint> result;
  for (const WorkPoint& wait : open) {
    const bool covered = std::any_of(open.begin(), open.end(), [&](const WorkPoint& other) {
      const Clock* clock = other == wait ? nullptr : implied(other);
      return clock != nullptr && at(*clock, wait.queue) >= wait.number;
    });
    if (!covered) result.push_back(wait);
  }
  return result;
}

void Ordering::need_users(Clock& needed, const ByteRange& range, bool writing) const {
  const auto space = spaces_.find(range.space);
  if (space == spaces_.end() || range.begin >= range.end) return;
  const Segments& segments = space->second;
  auto it = segments.upper_bound(range.begin);
  if (it != segments.begin()) --it;
  for (; it != segments.end() && it->first < range.end; ++it) {
    if (it->second.end <= range.begin) continue;
    need(needed, it->second.write);
    if (!writing) continue;
    for (const WorkPoint& reader : it->second.reads) need(needed, reader);
  }
}

std::vector<WorkPoint> Ordering::needed_by(int queue, std::span<const ByteRange> reads,
                                           std::span<const ByteRange> writes) const {
  Clock needed;
  needed.resize(lines_.size(), 0);
  for (const ByteRange& range : reads) need_users(needed, range, false);
  for (const ByteRange& range : writes) need_users(needed, range, true);
  return reduce(needed, queue);
}

std::vector<WorkPoint> Ordering::users(const ByteRange& range, bool writing) const {
  Clock needed;
  needed.resize(lines_.size(), 0);
  need_users(needed, range, writing);
  std::vector<WorkPoint> result;
  for (int q = 0; q < queues(); ++q)
    if (at(needed, q) > at(host_, q)) result.push_back({q, at(needed, q)});
  return result;
}

void Ordering::host_waited(WorkPoint point) {
  if (point.number == 0 || ended(point)) return;
  if (const Clock* known = implied(point)) join(host_, *known);
  auto& own = host_[static_cast<std::size_t>(point.queue)];
  own = std::max(own, point.number);
  for (std::size_t q = 0; q < lines_.size(); ++q) {
    Line& line = lines_[q];
    while (line.first <= host_[q] && !line.ends.empty()) {
      line.ends.pop_front();
      ++line.first;
    }
  }
}

// Bytes whose users have all ended need no memory of it.
void Ordering::forget_ended() {
  for (auto space = spaces_.begin(); space != spaces_.end();) {
    std::erase_if(space->second, [&](const auto& entry) {
      const Segment& segment = entry.second;
      return ended(segment.write) && std::all_of(segment.reads.begin(), segment.reads.end(),
                                                 [&](const WorkPoint& reader) { return ended(reader); });
    });
    space = space->second.empty() ? spaces_.erase(space) : std::next(space);
  }
  prune_at_ = std::max<std::size_t>(1024, 2 * segments());
}

}  // namespace lathe
