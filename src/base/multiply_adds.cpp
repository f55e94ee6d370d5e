#include "base/multiply_adds.h"

#include "base/cpus.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// The sums below live in registers only where the loop over them is unrolled.
#ifdef __clang__
#define LATHE_UNROLL _Pragma("unroll")
#else
#define LATHE_UNROLL _Pragma("GCC unroll 48")
#endif

namespace lathe {
namespace {

constexpr int kChains = 12;  // independent sums: enough to keep two multiply-add units busy

double plain_arithmetic(int steps, float* sink) {
  float sums[kChains * 4] = {};
  for (int step = 0; step < steps; ++step) LATHE_UNROLL
  for (float& sum : sums) sum = sum * 0.999f + 1.0f;
  for (const float sum : sums) *sink += sum;
  return 2.0 * steps * kChains * 4;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) double avx2_arithmetic(int steps, float* sink) {
  const __m256 factor = _mm256_set1_ps(0.999f), one = _mm256_set1_ps(1.0f);
  __m256 sums[kChains];
  for (__m256& sum : sums) sum = one;
  for (int step = 0; step < steps; ++step) LATHE_UNROLL
  for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, one);
  for (const __m256& sum : sums) *sink += _mm256_cvtss_f32(sum);
  return 2.0 * steps * kChains * 8;
}

__attribute__((target("avx512f"))) double avx512_arithmetic(int steps, float* sink) {
  const __m512 factor = _mm512_set1_ps(0.999f), one = _mm512_set1_ps(1.0f);
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = one;
  for (int step = 0; step < steps; ++step) LATHE_UNROLL
  for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, one);
  for (const __m512& sum : sums) *sink += _mm512_cvtss_f32(sum);
  return 2.0 * steps * kChains * 16;
}
#endif

using Arithmetic = double (*)(int steps, float* sink);

Arithmetic widest_arithmetic() {
#if defined(__x86_64__)
  const int limit = cpu_level_limit() == 0 ? 4 : cpu_level_limit();
  if (limit >= 4 && __builtin_cpu_supports("avx512f")) return avx512_arithmetic;
  if (limit >= 3 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2_arithmetic;
#endif
  return plain_arithmetic;
}

}  // namespace

double multiply_adds(int steps, float* sink) {
  static const Arithmetic arithmetic = widest_arithmetic();
  return arithmetic(steps, sink);
}

}  // namespace lathe
