#include "engine/joined_launches.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "base/env.h"
#include "base/log.h"
#include "engine/counting.h"
#include "engine/debug.h"

namespace lathe::engine {
namespace {

// A computation that has run so often will run again; fewer launches than this gain nothing.
constexpr std::uint64_t kRepeated = 2;
constexpr std::size_t kWorthJoining = 2;

// A device works on so many kernels while the next ones are made ready; what a list costs beside its kernels
// is little then.
constexpr std::size_t kMostJoined = 64;

// The same bytes in as few places: intermediates of one arena overlap, and each place is looked up.
void merge_places(std::vector<Place>& places) {
  auto key = [](const Place& p) {
    const ByteRange r = byte_range(p);
    return std::tuple(r.space, r.begin, r.end);
  };
  std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) { return key(a) < key(b); });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < places.size(); ++i) {
    Span &last = places[kept].span, &span = places[i].span;
    const bool one_memory = places[kept].device == places[i].device &&
                            last.memory.handle == span.memory.handle && last.memory.host == span.memory.host;
    if (one_memory && span.offset <= last.offset + last.bytes)
      last.bytes = std::max(last.bytes, span.offset + span.bytes - last.offset);
    else
      places[++kept] = places[i];
  }
  if (!places.empty()) places.resize(kept + 1);
}

}  // namespace

JoinedLaunches::JoinedLaunches(KnownLaunches& known) : known_(known), lock_(known.mutex, std::try_to_lock) {
  repeated_ = lock_.owns_lock() && ++known.runs > kRepeated;
  if (timing_wanted())
    alone_ = "every kernel is timed";
  else if (flag_on(Flag::Verify))
    alone_ = "every kernel is compared with REF";
  else if (flag_on(Flag::Wide))
    alone_ = "REF computes every kernel";
}

bool JoinedLaunches::is_full() const { return launches_.size() >= kMostJoined; }

bool JoinedLaunches::may_join(const Step& step, const MadeKernel& made) const {
  if (!repeated_) return false;
  const std::string_view why = !alone_.empty()              ? alone_
                               : made.launch.checks.empty() ? ""
                                                            : "it checks an index";
  // Told once, when the computation first counts as repeated.
  if (!why.empty() && known_.runs == kRepeated + 1 && flag_number(Flag::Debug) >= 2)
    log_note("launch", fmt::format("{} is launched separately: {}", step.name, why));
  return why.empty();
}

void JoinedLaunches::submit() {
  if (launches_.empty()) return;
  if (launches_.size() < kWorthJoining) {
    for (const std::unique_ptr<Launch>& launch : launches_) executor().launch(launch->work());
  } else {
    std::vector<LaunchCall> calls;
    std::vector<Place> reads, writes;
    for (const std::unique_ptr<Launch>& launch : launches_) {
      const LaunchWork& work = launch->work();
      calls.push_back({work.kernel, work.grid, work.args});
      reads.insert(reads.end(), work.reads.begin(), work.reads.end());
      writes.insert(writes.end(), work.writes.begin(), work.writes.end());
    }
    merge_places(reads);
    merge_places(writes);
    if (next_ == known_.lists.size()) known_.lists.emplace_back();
    const std::string name = fmt::format("{} kernels", calls.size());
    executor().launch_all({.device = device_,
                           .calls = calls,
                           .reads = reads,
                           .writes = writes,
                           .known = &known_.lists[next_++],
                           .name = name});
  }
  for (const MadeKernel* made : made_) count_kernel(made->launch.flops, made->launch.bytes);
  launches_.clear();
  made_.clear();
  device_ = nullptr;
}

}  // namespace lathe::engine
