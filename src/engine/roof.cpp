#include "engine/roof.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "base/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// The sums below live in registers only where the loop over them is unrolled.
#ifdef __clang__
#define LATHE_UNROLL _Pragma("unroll")
#else
#define LATHE_UNROLL _Pragma("GCC unroll 48")
#endif

namespace lathe::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

constexpr int kSteps = 200000;
constexpr int kChains = 12;  // independent sums: enough to keep two multiply-add units busy

// Each returns the float operations it did; `sink` keeps the work from being dropped.
double plain_arithmetic(float* sink) {
  float sums[kChains * 4] = {};
  for (int step = 0; step < kSteps; ++step) LATHE_UNROLL
  for (float& sum : sums) sum = sum * 0.999f + 1.0f;
  for (const float sum : sums) *sink += sum;
  return 2.0 * kSteps * kChains * 4;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) double avx2_arithmetic(float* sink) {
  const __m256 factor = _mm256_set1_ps(0.999f), one = _mm256_set1_ps(1.0f);
  __m256 sums[kChains];
  for (__m256& sum : sums) sum = one;
  for (int step = 0; step < kSteps; ++step) LATHE_UNROLL
  for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, one);
  for (const __m256& sum : sums) *sink += _mm256_cvtss_f32(sum);
  return 2.0 * kSteps * kChains * 8;
}

__attribute__((target("avx512f"))) double avx512_arithmetic(float* sink) {
  const __m512 factor = _mm512_set1_ps(0.999f), one = _mm512_set1_ps(1.0f);
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = one;
  for (int step = 0; step < kSteps; ++step) LATHE_UNROLL
  for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, one);
  for (const __m512& sum : sums) *sink += _mm512_cvtss_f32(sum);
  return 2.0 * kSteps * kChains * 16;
}
#endif

// Memory that lies in the first caches, in the last one, and in none; a round moves enough of it to be timed.
constexpr std::size_t kPartBytes[] = {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{32} << 20};
constexpr std::size_t kRoundBytes = std::size_t{16} << 20;

using Arithmetic = double (*)(float* sink);

Arithmetic widest_arithmetic() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return avx512_arithmetic;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2_arithmetic;
#endif
  return plain_arithmetic;
}

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
  const Arithmetic arithmetic = widest_arithmetic();
  std::vector<float> sinks(static_cast<std::size_t>(parts) * 64);  // a cache line and more for each
  std::vector<double> done(static_cast<std::size_t>(parts) * 16);
  Roof roof;
  roof.flops = best_rate(0.03, [&] {
    pool.parallel_for(parts, [&](std::int64_t part) {
      const auto p = static_cast<std::size_t>(part);
      done[p * 16] = arithmetic(&sinks[p * 64]);
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

}  // namespace

double Roof::bytes_rate(double touched) const {
  if (bytes.empty()) return 0;
  auto fits = std::find_if(bytes.rbegin(), bytes.rend(),
                           [&](const Memory& m) { return static_cast<double>(m.size) <= touched; });
  return fits == bytes.rend() ? bytes.front().rate : fits->rate;
}

const Roof& roof_of(const OpenDevice& device) {
  static const Roof unknown;
  if (device.compiler == nullptr || device.compiler->target().kind != TargetKind::Cpu) return unknown;
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
