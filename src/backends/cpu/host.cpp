#include "backends/cpu/host.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include <fmt/format.h>

#include "backends/cpu/machine_rates.h"
#include "backends/cpu/matrix_probe.h"
#include "base/cpus.h"
#include "base/env.h"
#include "base/error.h"
#include "target/matrix_units.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lathe::backends {
namespace {

enum Register { A, B, C, D };
enum State { None, Ymm, Zmm, Tiles };  // registers the system must save before the feature may be used

struct FeatureRow {
  const char* name;  // LLVM's
  unsigned leaf, subleaf;
  Register reg;
  int bit;
  State state;
  int level;  // part of x86-64-v<level>; 0: beyond the levels
};
// clang-format off
constexpr FeatureRow kFeatures[] = {
    // name          leaf        sub  reg  bit  state   level
    {"cx16",         0x00000001, 0,   C,   13,  None,   2},
    {"sahf",         0x80000001, 0,   C,   0,   None,   2},
    {"popcnt",       0x00000001, 0,   C,   23,  None,   2},
    {"sse3",         0x00000001, 0,   C,   0,   None,   2},
    {"ssse3",        0x00000001, 0,   C,   9,   None,   2},
    {"sse4.1",       0x00000001, 0,   C,   19,  None,   2},
    {"sse4.2",       0x00000001, 0,   C,   20,  None,   2},
    {"avx",          0x00000001, 0,   C,   28,  Ymm,    3},
    {"avx2",         0x00000007, 0,   B,   5,   Ymm,    3},
    {"bmi",          0x00000007, 0,   B,   3,   None,   3},
    {"bmi2",         0x00000007, 0,   B,   8,   None,   3},
    {"f16c",         0x00000001, 0,   C,   29,  Ymm,    3},
    {"fma",          0x00000001, 0,   C,   12,  Ymm,    3},
    {"lzcnt",        0x80000001, 0,   C,   5,   None,   3},
    {"movbe",        0x00000001, 0,   C,   22,  None,   3},
    {"xsave",        0x00000001, 0,   C,   26,  None,   3},
    {"avx512f",      0x00000007, 0,   B,   16,  Zmm,    4},
    {"avx512bw",     0x00000007, 0,   B,   30,  Zmm,    4},
    {"avx512cd",     0x00000007, 0,   B,   28,  Zmm,    4},
    {"avx512dq",     0x00000007, 0,   B,   17,  Zmm,    4},
    {"avx512vl",     0x00000007, 0,   B,   31,  Zmm,    4},
    {"avxvnni",      0x00000007, 1,   A,   4,   Ymm,    0},
    {"avx512vnni",   0x00000007, 0,   C,   11,  Zmm,    0},
    {"avx512vbmi",   0x00000007, 0,   C,   1,   Zmm,    0},
    {"avx512bf16",   0x00000007, 1,   A,   5,   Zmm,    0},
    {"avx512fp16",   0x00000007, 0,   D,   23,  Zmm,    0},
    {"amx-tile",     0x00000007, 0,   D,   24,  Tiles,  0},
    {"amx-bf16",     0x00000007, 0,   D,   22,  Tiles,  0},
    {"amx-int8",     0x00000007, 0,   D,   25,  Tiles,  0},
};
// clang-format on

#if defined(__x86_64__)
// The bits of XCR0 that each state needs.
constexpr std::uint64_t kSaved[] = {0, 0x6, 0xe6, 0x60000};

std::uint64_t saved_registers() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

bool present(const FeatureRow& row, std::uint64_t saved) {
  unsigned reg[4] = {};
  if (!__get_cpuid_count(row.leaf, row.subleaf, &reg[A], &reg[B], &reg[C], &reg[D])) return false;
  return (reg[row.reg] >> row.bit & 1) != 0 && (saved & kSaved[row.state]) == kSaved[row.state];
}
#endif

std::vector<std::string> read_features() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  const std::uint64_t saved = saved_registers();
  const int limit = cpu_level_limit();
  for (const FeatureRow& row : kFeatures)
    if ((limit == 0 || (row.level > 0 && row.level <= limit)) && present(row, saved))
      found.emplace_back(row.name);
#endif
  return found;
}

bool host_has(std::string_view feature) {
  const auto& all = host_features();
  return std::find(all.begin(), all.end(), feature) != all.end();
}

std::string features_up_to(int level) {
  std::string text;
  for (const FeatureRow& row : kFeatures)
    if (row.level > 0 && row.level <= level) text += (text.empty() ? "+" : ",+") + std::string(row.name);
  return text;
}

// 0 where not even level 2 is reached.
int host_level() {
  for (int level = 4; level >= 2; --level)
    if (missing_features(features_up_to(level)).empty()) return level;
  return 0;
}

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// A fact about the data cache of that level, as the system describes the one a core works with; "" where it
// does not.
std::string cache_fact(int level, const char* fact) {
  for (int i = 0; i < 8; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    if (first_word(folder + "level") == std::to_string(level) && first_word(folder + "type") != "Instruction")
      return first_word(folder + fact);
  }
  return "";
}

// sysconf would give the sum over a whole package on some machines, so it comes second.
std::int64_t cache_size(int level, int name, std::int64_t otherwise) {
  const std::string size = cache_fact(level, "size");  // "32768K"
  std::int64_t kib = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), kib);
  if (error == std::errc() && kib > 0 && end != size.data() + size.size() && *end == 'K') return kib * 1024;
  long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

int cache_ways(int level, int otherwise) {
  const std::string text = cache_fact(level, "ways_of_associativity");
  int ways = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ways);
  return error == std::errc() && ways > 0 ? ways : otherwise;
}

Target make_host_target() {
  int level = std::max(host_level(), 2);
  Target t = named_target("x86-64-v" + std::to_string(level));
  t.features = features_up_to(level);
  for (const FeatureRow& row : kFeatures)
    if (row.level == 0 && host_has(row.name)) {
      t.name += "+" + std::string(row.name);
      t.features += ",+" + std::string(row.name);
    }
  t.units = working_units(units_of_features(t.features));
  t.rounds_products = has_feature(t.features, "avx512bf16");
  t.l1 = cache_size(1, _SC_LEVEL1_DCACHE_SIZE, t.l1);
  t.l2 = cache_size(2, _SC_LEVEL2_CACHE_SIZE, t.l2);
  t.l3 = cache_size(3, _SC_LEVEL3_CACHE_SIZE, t.l3);
  t.l1_ways = cache_ways(1, t.l1_ways), t.l2_ways = cache_ways(2, t.l2_ways);
  const auto asked = static_cast<int>(flag_number(Flag::Threads));
  t.cores = asked > 0 ? asked : usable_cpus();
  fill_rates(t);
  return t;
}

}  // namespace

const std::vector<std::string>& host_features() {
  static const std::vector<std::string> all = read_features();
  return all;
}

const Target& host_target() {
  static const Target target = make_host_target();
  return target;
}

std::vector<std::string> cpu_target_names() {
  std::vector<std::string> names{host_target().name};
  for (int level = 2; level <= 4; ++level) {
    std::string name = "x86-64-v" + std::to_string(level);
    if (name != names[0]) names.push_back(name);
  }
  return names;
}

Target cpu_target(std::string_view name) {
  if (name.empty() || name == host_target().name) return host_target();
  for (int level = 2; level <= 4; ++level) {
    const std::string row = "x86-64-v" + std::to_string(level);
    if (!name.starts_with(row) || (name.size() > row.size() && name[row.size()] != '+')) continue;
    Target t = named_target(name);
    t.features = features_up_to(level) + (t.features.empty() ? "" : "," + t.features);
    return t;
  }
  throw UserError("CPU", "no target of the CPU is called '" + std::string(name) + "'")
      .help("targets are this machine's own, x86-64-v2, x86-64-v3 and x86-64-v4");
}

std::string missing_features(std::string_view features) {
  std::string missing;
  for_each_feature(features, [&](std::string_view feature) {
    if (!host_has(feature)) missing += (missing.empty() ? "" : " ") + std::string(feature);
  });
  return missing;
}

}  // namespace lathe::backends
