// What this machine can do at best, measured beside every row: the widest multiply-add instructions on
// registers alone, and reading or copying memory that fits in no cache, with stores that skip the caches.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "lathe/dev/machine.h"
#include "lathe/error.h"
#include "tools/lathe/bench_cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// The sums below live in registers only where the loop over them is unrolled.
#ifdef __clang__
#define LATHE_UNROLL _Pragma("unroll")
#else
#define LATHE_UNROLL _Pragma("GCC unroll 48")
#endif

namespace lathe::tool {
namespace {

constexpr int kSteps = 1'000'000;
constexpr int kChains = 12;  // independent sums: enough to keep two units busy

// Each does its steps on registers and returns the operations done; `sink` keeps them from being dropped.
using Arithmetic = double (*)(float* sink);

double floats(float* sink) { return dev::multiply_adds(kSteps, sink); }

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bf16,avx512vl"))) double avx512_bfloat(float* sink) {
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f));
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0f);
  for (int step = 0; step < kSteps; ++step) LATHE_UNROLL
  for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, a, a);
  for (const __m512& sum : sums) *sink += _mm512_cvtss_f32(sum);
  return 2.0 * kSteps * kChains * 32;
}

__attribute__((target("avx512f,avx512vnni"))) double avx512_int8(float* sink) {
  const __m512i a = _mm512_set1_epi8(1);
  __m512i s0 = a, s1 = a, s2 = a, s3 = a, s4 = a, s5 = a, s6 = a, s7 = a, s8 = a, s9 = a, s10 = a, s11 = a;
  // Written out, because a compiler may count steps whose result it can foresee, or keep the sums in memory.
  for (int step = 0; step < kSteps; ++step)
    asm volatile(
        "vpdpbusd %12, %12, %0\n\tvpdpbusd %12, %12, %1\n\tvpdpbusd %12, %12, %2\n\t"
        "vpdpbusd %12, %12, %3\n\tvpdpbusd %12, %12, %4\n\tvpdpbusd %12, %12, %5\n\t"
        "vpdpbusd %12, %12, %6\n\tvpdpbusd %12, %12, %7\n\tvpdpbusd %12, %12, %8\n\t"
        "vpdpbusd %12, %12, %9\n\tvpdpbusd %12, %12, %10\n\tvpdpbusd %12, %12, %11"
        : "+v"(s0), "+v"(s1), "+v"(s2), "+v"(s3), "+v"(s4), "+v"(s5), "+v"(s6), "+v"(s7), "+v"(s8), "+v"(s9),
          "+v"(s10), "+v"(s11)
        : "v"(a));
  for (const __m512i& sum : {s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11})
    *sink += static_cast<float>(_mm512_cvtsi512_si32(sum));
  return 2.0 * kSteps * kChains * 64;
}

__attribute__((target("avx2"))) double avx2_int8(float* sink) {
  const __m256i a = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
  __m256i sums[kChains];
  for (__m256i& sum : sums) sum = _mm256_set1_epi32(1);
  for (int step = 0; step < kSteps; ++step) LATHE_UNROLL
  for (__m256i& sum : sums) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, a), ones));
    asm volatile("" : "+x"(sum));
  }
  for (const __m256i& sum : sums) *sink += static_cast<float>(_mm256_cvtsi256_si32(sum));
  return 2.0 * kSteps * kChains * 32;
}

// Tile registers are asked for when the CPU device is opened, which it has been where it names such a unit.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr int kTileSteps = 20'000;

// Four sums, as a kernel with two by two fragments has, on zeros: a unit is as fast on them as on other
// numbers.
#define LATHE_TILES(instruction)                                                                 \
  const TileConfig config;                                                                       \
  asm volatile("ldtilecfg %0" : : "m"(config));                                                  \
  asm volatile("tilezero %%tmm4\n\ttilezero %%tmm5\n\ttilezero %%tmm6\n\ttilezero %%tmm7" : :);  \
  for (int step = 0; step < kTileSteps; ++step)                                                  \
    asm volatile(instruction " %%tmm6, %%tmm4, %%tmm0\n\t" instruction                           \
                             " %%tmm7, %%tmm4, %%tmm1\n\t" instruction                           \
                             " %%tmm6, %%tmm5, %%tmm2\n\t" instruction " %%tmm7, %%tmm5, %%tmm3" \
                 :                                                                               \
                 :);                                                                             \
  asm volatile("tilerelease" : :)

double tile_bfloat(float*) {
  LATHE_TILES("tdpbf16ps");
  return 2.0 * kTileSteps * 4 * 16 * 16 * 32;
}
double tile_int8(float*) {
  LATHE_TILES("tdpbssd");
  return 2.0 * kTileSteps * 4 * 16 * 16 * 64;
}

// What the CPU device uses, so that the probe and the kernels have the same instructions: a unit that it
// found to work, or all of an x86-64 level.
const dev::DeviceRow& cpu_device() {
  static const dev::DeviceRow cpu = [] {
    for (dev::DeviceRow& row : dev::devices())
      if (row.name == "CPU") return std::move(row);
    return dev::DeviceRow();
  }();
  return cpu;
}
bool has_unit(std::string_view name) { return cpu_device().features.find(name) != std::string::npos; }
bool has_level(char level) {
  constexpr std::string_view kLevels = "x86-64-v";
  const std::string& target = cpu_device().target;
  return target.starts_with(kLevels) && target[kLevels.size()] >= level;
}
#endif

Arithmetic widest(RoofKind kind) {
#if defined(__x86_64__)
  if (kind == RoofKind::BFloat16 && has_unit("tdpbf16ps")) return tile_bfloat;
  if (kind == RoofKind::Int8 && has_unit("tdpbssd")) return tile_int8;
  if (kind == RoofKind::BFloat16 && has_level('4') && has_unit("vdpbf16ps")) return avx512_bfloat;
  if (kind == RoofKind::Int8 && has_level('4') && has_unit("vpdpbusd")) return avx512_int8;
  if (kind == RoofKind::Int8 && has_level('3')) return avx2_int8;
#endif
  return floats;
}

// ---- memory

constexpr std::size_t kMemory = std::size_t{256} << 20, kHugePage = std::size_t{2} << 20;

// On huge pages where the system gives them, as Lathe's own buffers are: with small ones a walk over memory
// waits for page tables half of the time.
struct Memory {
  char* from = nullptr;
  char* to = nullptr;
  Memory() : owned_(static_cast<char*>(std::aligned_alloc(kHugePage, 2 * kMemory)), &std::free) {
    if (owned_ == nullptr) throw UserError("bench cpu", "no memory for the probe of the memory roof");
    madvise(owned_.get(), 2 * kMemory, MADV_HUGEPAGE);
    std::memset(owned_.get(), 1, 2 * kMemory);
    from = owned_.get();
    to = from + kMemory;
  }

 private:
  std::unique_ptr<char, decltype(&std::free)> owned_;
};

void plain_read(const char* from, char*, std::size_t bytes, float* sink) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 64 <= bytes; i += 64)
    for (std::size_t j = 0; j < 8; ++j) {
      std::uint64_t word;
      std::memcpy(&word, from + i + j * 8, 8);
      sums[j] += word;
    }
  for (const std::uint64_t sum : sums) *sink += static_cast<float>(sum);
}
void plain_copy(const char* from, char* to, std::size_t bytes, float*) { std::memcpy(to, from, bytes); }

#if defined(__x86_64__)
// Several separate streams; the number that a core's prefetchers follow well differs, so a few numbers
// are tried in turn.
template <std::size_t kStreams>
__attribute__((target("avx2"))) void avx2_read(const char* from, char*, std::size_t bytes, float* sink) {
  const std::size_t part = bytes / kStreams;
  __m256i sums[kStreams * 2];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  for (std::size_t i = 0; i < part; i += 128) LATHE_UNROLL
  for (std::size_t s = 0; s < kStreams; ++s) LATHE_UNROLL
  for (std::size_t j = 0; j < 4; ++j)
    sums[s * 2 + j % 2] =
        _mm256_add_epi32(sums[s * 2 + j % 2],
                         _mm256_load_si256(reinterpret_cast<const __m256i*>(from + s * part + i + j * 32)));
  for (const __m256i& sum : sums) *sink += static_cast<float>(_mm256_cvtsi256_si32(sum));
}

template <std::size_t kStreams>
__attribute__((target("avx2"))) void avx2_copy(const char* from, char* to, std::size_t bytes, float*) {
  const std::size_t part = bytes / kStreams;
  for (std::size_t i = 0; i < part; i += 128) LATHE_UNROLL
  for (std::size_t s = 0; s < kStreams; ++s) LATHE_UNROLL
  for (std::size_t j = 0; j < 128; j += 32)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + s * part + i + j),
                        _mm256_load_si256(reinterpret_cast<const __m256i*>(from + s * part + i + j)));
  _mm_sfence();
}
#endif

using Walk = void (*)(const char* from, char* to, std::size_t bytes, float* sink);

std::vector<Walk> walks_of(RoofKind kind) {
  const bool read = kind == RoofKind::Read;
#if defined(__x86_64__)
  if (has_level('3'))
    return read ? std::vector<Walk>{avx2_read<1>, avx2_read<2>, avx2_read<4>}
                : std::vector<Walk>{avx2_copy<1>, avx2_copy<2>, avx2_copy<4>};
#endif
  return {read ? plain_read : plain_copy};
}

// From when the last thread is there to when the last one is done: starting them is not counted.
double seconds_of(int threads, const std::function<void(int)>& part) {
  using Clock = std::chrono::steady_clock;
  std::atomic<int> missing = threads;
  std::vector<Clock::time_point> begun(static_cast<std::size_t>(threads)), done = begun;
  auto run = [&](int i) {
    missing.fetch_sub(1);
    while (missing.load() > 0) std::this_thread::yield();
    begun[static_cast<std::size_t>(i)] = Clock::now();
    part(i);
    done[static_cast<std::size_t>(i)] = Clock::now();
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run, i);
  run(0);
  for (std::thread& other : others) other.join();
  return std::chrono::duration<double>(*std::max_element(done.begin(), done.end()) -
                                       *std::min_element(begun.begin(), begun.end()))
      .count();
}

}  // namespace

double probe_roof(RoofKind kind, int threads, double work) {
  std::vector<float> sinks(static_cast<std::size_t>(threads) * 64);  // a cache line and more for each
  if (kind == RoofKind::Read || kind == RoofKind::Copy) {
    static const Memory memory;
    // As much memory at a time as the row moves: of short walks one is always lucky. The next one goes on
    // where this one ended.
    const double wanted = work / (kind == RoofKind::Copy ? 2 : 1);
    const std::size_t length = wanted < kMemory ? static_cast<std::size_t>(wanted) : kMemory,
                      turns = kMemory / length, part = length / static_cast<std::size_t>(threads) / 512 * 512;
    static std::size_t turn = 0;
    const std::size_t at = turn++ % turns * length;
    const std::vector<Walk> walks = walks_of(kind);
    const Walk walk = walks[turn / turns % walks.size()];
    const double seconds = seconds_of(threads, [&](int i) {
      const std::size_t begin = at + static_cast<std::size_t>(i) * part;
      walk(memory.from + begin, memory.to + begin, part, &sinks[static_cast<std::size_t>(i) * 64]);
    });
    return static_cast<double>(part) * threads * (kind == RoofKind::Copy ? 2 : 1) / seconds;
  }
  const Arithmetic arithmetic = widest(kind);
  std::vector<double> done(static_cast<std::size_t>(threads) * 16);
  const double seconds = seconds_of(threads, [&](int i) {
    done[static_cast<std::size_t>(i) * 16] = arithmetic(&sinks[static_cast<std::size_t>(i) * 64]);
  });
  double sum = 0;
  for (int i = 0; i < threads; ++i) sum += done[static_cast<std::size_t>(i) * 16];
  return sum / seconds;
}

}  // namespace lathe::tool
