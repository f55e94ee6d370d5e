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

constexpr int kSteps = 20000;
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

using Arithmetic = double (*)(float* sink);

Arithmetic widest_arithmetic() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return avx512_arithmetic;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2_arithmetic;
#endif
  return plain_arithmetic;
}

// The best of several rounds: a roof is what can be reached, not what other programs left over.
template <class Round>
double best_rate(int rounds, Round round) {
  double best = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    const double work = round();
    best = std::max(best, work / seconds_since(begin));
  }
  return best;
}

Roof measure_cpu() {
  ThreadPool& pool = ThreadPool::shared();
  const auto parts = static_cast<std::int64_t>(pool.threads());
  const Arithmetic arithmetic = widest_arithmetic();
  std::vector<float> sinks(static_cast<std::size_t>(parts) * 64);  // a cache line and more for each
  std::vector<double> done(static_cast<std::size_t>(parts) * 16);
  Roof roof;
  roof.flops = best_rate(5, [&] {
    pool.parallel_for(parts, [&](std::int64_t part) {
      const auto p = static_cast<std::size_t>(part);
      done[p * 16] = arithmetic(&sinks[p * 64]);
    });
    double sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += done[static_cast<std::size_t>(part) * 16];
    return sum;
  });
  constexpr std::size_t kPart = std::size_t{16} << 20;
  const std::size_t total = kPart * static_cast<std::size_t>(parts);
  const auto from = std::make_unique<char[]>(total), to = std::make_unique<char[]>(total);
  roof.bytes = best_rate(4, [&] {
    pool.parallel_for(parts, [&](std::int64_t part) {
      const std::size_t begin = static_cast<std::size_t>(part) * kPart;
      std::memcpy(to.get() + begin, from.get() + begin, kPart);
    });
    return 2.0 * static_cast<double>(total);
  });
  return roof;
}

}  // namespace

Roof roof_of(const OpenDevice& device) {
  if (device.compiler == nullptr || device.compiler->target().kind != TargetKind::Cpu) return {};
  static const Roof roof = measure_cpu();
  return roof;
}

double share_of_roof(const OpenDevice& device, double flops, double bytes, double ns) {
  const Roof roof = roof_of(device);
  if (ns <= 0 || roof.flops <= 0 || roof.bytes <= 0) return 0;
  return std::max(flops / roof.flops, bytes / roof.bytes) * 1e9 / ns;
}

}  // namespace lathe::engine
