#include "engine/roof.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/multiply_adds.h"
#include "base/thread_pool.h"
#include "engine/device_roof.h"

namespace lathe::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

constexpr int kSteps = 200000;

// Sizes of memory that fit L2, that fit only L3, and that exceed all caches; a round moves enough of it to be
// timed.
constexpr std::size_t kPartBytes[] = {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{32} << 20};
constexpr std::size_t kRoundBytes = std::size_t{16} << 20;

// The best of the rounds that fit into a while: a roof is what can be reached, not what other programs left
// over, and the first rounds find a machine that still sleeps.
template <class Round>
double best_rate(double seconds, Round round) {
  double best = 0;
  const auto first = Clock::now();
  do {
    const auto begin = Clock::now();
    const double work = round();
    best = std::max(best, work / seconds_since(begin));
  } while (seconds_since(first) < seconds);
  return best;
}

// Each part works on memory of its own, of so many bytes in all, often enough to hide the start of the
// threads.
double copy_rate(ThreadPool& pool, std::size_t part_bytes, double seconds) {
  const auto parts = static_cast<std::int64_t>(pool.threads());
  const std::size_t half = part_bytes / 2, total = half * static_cast<std::size_t>(parts);
  const int repeats = static_cast<int>(std::max<std::size_t>(1, kRoundBytes / part_bytes));
  const auto from = std::make_unique<char[]>(total), to = std::make_unique<char[]>(total);
  return best_rate(seconds, [&] {
    pool.parallel_for(parts, [&](std::int64_t part) {
      const std::size_t begin = static_cast<std::size_t>(part) * half;
      for (int i = 0; i < repeats; ++i) std::memcpy(to.get() + begin, from.get() + begin, half);
    });
    return 2.0 * static_cast<double>(total) * repeats;
  });
}

double read_rate(ThreadPool& pool, std::size_t part_bytes, double seconds) {
  const auto parts = static_cast<std::int64_t>(pool.threads());
  const std::size_t words = part_bytes / sizeof(std::uint64_t);
  const int repeats = static_cast<int>(std::max<std::size_t>(1, kRoundBytes / part_bytes));
  const std::vector<std::uint64_t> from(words * static_cast<std::size_t>(parts), 1);
  std::vector<std::uint64_t> sinks(static_cast<std::size_t>(parts) * 16);
  return best_rate(seconds, [&] {
    pool.parallel_for(parts, [&](std::int64_t part) {
      const std::uint64_t* begin = from.data() + static_cast<std::size_t>(part) * words;
      std::uint64_t sums[8] = {};
      for (int i = 0; i < repeats; ++i)
        for (std::size_t w = 0; w + 8 <= words; w += 8)
          for (std::size_t k = 0; k < 8; ++k) sums[k] += begin[w + k];
      for (const std::uint64_t sum : sums) sinks[static_cast<std::size_t>(part) * 16] += sum;
    });
    return static_cast<double>(words * sizeof(std::uint64_t)) * static_cast<double>(parts) * repeats;
  });
}

Roof measure_cpu() {
  ThreadPool& pool = ThreadPool::shared();
  const auto parts = static_cast<std::int64_t>(pool.threads());
  std::vector<float> sinks(static_cast<std::size_t>(parts) * 64);  // a cache line and more for each
  std::vector<double> done(static_cast<std::size_t>(parts) * 16);
  Roof roof;
  roof.flops = best_rate(0.03, [&] {
    pool.parallel_for(parts, [&](std::int64_t part) {
      const auto p = static_cast<std::size_t>(part);
      done[p * 16] = multiply_adds(kSteps, &sinks[p * 64]);
    });
    double sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += done[static_cast<std::size_t>(part) * 16];
    return sum;
  });
  for (const std::size_t part_bytes : kPartBytes)
    roof.bytes.push_back({part_bytes * static_cast<std::size_t>(parts),
                          std::max(copy_rate(pool, part_bytes, 0.01), read_rate(pool, part_bytes, 0.01))});
  // What is quick to reach when it is large is so when it is small.
  for (std::size_t i = roof.bytes.size() - 1; i-- > 0;)
    roof.bytes[i].rate = std::max(roof.bytes[i].rate, roof.bytes[i + 1].rate);
  return roof;
}

// Devices of one backend may be different chips. One whose memory is taken has no roof: what a program runs
// in is not spent on measuring.
const Roof& roof_of_groups(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, Roof> roofs;
  const std::lock_guard guard(mutex);
  const auto [at, is_new] = roofs.try_emplace(name);
  if (!is_new) return at->second;
  try {
    at->second = measure_groups(open_device(name));
  } catch (const OutOfMemory&) {
  }
  return at->second;
}

}  // namespace

double Roof::bytes_rate(double touched) const {
  if (bytes.empty()) return 0;
  auto fits = std::find_if(bytes.rbegin(), bytes.rend(),
                           [&](const Memory& m) { return static_cast<double>(m.size) <= touched; });
  return fits == bytes.rend() ? bytes.front().rate : fits->rate;
}

const Roof& roof_of(const OpenDevice& device) {
  static const Roof unknown;
  if (device.compiler == nullptr) return unknown;
  const Target& target = device.compiler->target();
  if (target.reference) return unknown;
  if (target.groups) return roof_of_groups(device.text);
  static const Roof roof = measure_cpu();
  return roof;
}

double share_of_roof(const OpenDevice& device, double flops, double bytes, double ns) {
  const Roof& roof = roof_of(device);
  const double memory = roof.bytes_rate(bytes);
  if (ns <= 0 || roof.flops <= 0 || memory <= 0) return 0;
  return std::max(flops / roof.flops, bytes / memory) * 1e9 / ns;
}

}  // namespace lathe::engine
