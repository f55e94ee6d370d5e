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

// Each place once.
void keep_once(std::vector<Place>& places) {
  auto key = [](const Place& p) {
    const ByteRange r = byte_range(p);
    return std::tuple(r.space, r.begin, r.end);
  };
  std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) { return key(a) < key(b); });
  places.erase(std::unique(places.begin(), places.end(),
                           [&](const Place& a, const Place& b) { return key(a) == key(b); }),
               places.end());
}

}  // namespace

JoinedLaunches::JoinedLaunches(KnownLaunches& known) : known_(known), lock_(known.mutex, std::try_to_lock) {
  repeated_ = lock_.owns_lock() && ++known.runs > kRepeated;
  if (timing_wanted())
    alone_ = "every kernel is timed";
  else if (flag_on(Flag::Verify))
    alone_ = "every kernel is compared with REF";
}

bool JoinedLaunches::may_join(const Step& step, const MadeKernel& made) const {
  if (!repeated_) return false;
  const std::string_view why = !alone_.empty()              ? alone_
                               : made.launch.checks.empty() ? ""
                                                            : "it checks an index";
  // Told once, when the computation first counts as repeated.
  if (!why.empty() && known_.runs == kRepeated + 1 && flag_number(Flag::Debug) >= 2)
    log_note("launch", fmt::format("{} is launched by itself: {}", step.name, why));
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
    keep_once(reads);
    keep_once(writes);
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
