#include "backends/cpu/machine_rates.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/multiply_adds.h"
#include "base/read_memory.h"
#include "target/target_family.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lathe::backends {
namespace {

// ---- chips

// Bytes a cycle, with the widest vectors. A core does two multiply-adds and two loads a cycle of narrower
// ones.
struct ChipRow {
  std::string_view vendor;
  int family, first_model, last_model;
  MachineRates rates;
};
constexpr ChipRow kChips[] = {
    // Emerald Rapids, by this probe on a virtual machine of 16 CPUs: 320 GB/s of multiply-adds, two of 64
    // bytes a
    // cycle; 250 to 280 from L1, 125 to 140 from L2, 24 from L3 and 12 from memory. One core reads 64 MiB at
    // L3's rate,
    // of the 300 that the machine reports; half of that is counted on while others work, too.
    {"GenuineIntel",
     6,
     207,
     207,
     {{.arithmetic = 128, .l1 = 104, .l2 = 51, .l3 = 9.6, .memory = 4.7}, 32 * kMiB}},
    // Zen 4 (Genoa), LATHE_RATES=measure on 2 cores of a virtual machine: 236 GB/s of multiply-adds, 64 bytes
    // a cycle;
    // 220 from L1, 118 from L2, 100 from L3 of 32 MiB for each 8 cores, 28 to 34 from memory.
    {"AuthenticAMD",
     25,
     0x10,
     0x1f,
     {{.arithmetic = 64, .l1 = 64, .l2 = 32, .l3 = 25.6, .memory = 8}, 32 * kMiB}},
};

// ---- the probe

using Clock = std::chrono::steady_clock;

// The best of the rounds that fit into a while: other programs only make it slower.
template <class Round>
double best_rate(Round round) {
  constexpr double kSeconds = 0.01;
  double best = 0;
  const auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const auto first = Clock::now();
  do {
    const auto begin = Clock::now();
    const double done = round();
    best = std::max(best, done / seconds_since(begin));
  } while (seconds_since(first) < kSeconds);
  return best;
}

struct FreeLines {
  void operator()(char* memory) const { ::operator delete(memory, std::align_val_t{64}); }
};

// 0 where there is not so much memory.
double read_rate(std::size_t bytes) {
  constexpr std::size_t kRound = std::size_t{4} << 20, kBlock = 512;
  bytes = std::max(bytes / kBlock, std::size_t{1}) * kBlock;
  const std::unique_ptr<char, FreeLines> memory(
      static_cast<char*>(::operator new(bytes, std::align_val_t{64}, std::nothrow)));
  if (memory == nullptr) return 0;
  std::memset(memory.get(), 1, bytes);
  const int times = static_cast<int>(std::max<std::size_t>(kRound / bytes, 1));
  volatile std::size_t seen = 0;
  return best_rate([&] {
    seen = read_memory(memory.get(), bytes, times);
    return static_cast<double>(bytes) * times;
  });
}

// ---- what is kept

// One file per chip and vector width: a folder may be shared by machines.
std::string kept_path(const Target& target) {
  const std::string folder = cache_folder();
  const ChipId chip = host_chip();
  const std::string key = fmt::format("{} {} {} {} {} {} {} {}", chip.vendor, chip.family, chip.model,
                                      chip.name, target.vector_bytes, target.l1, target.l2, target.l3);
  return folder.empty() ? "" : fmt::format("{}/machine/{:016x}", folder, hash_string(key, 5));
}

std::optional<MachineRates> kept_rates(const std::string& path) try {
  const std::optional<std::string> text = read_file(path);
  return text ? parse_rates(*text) : std::nullopt;
} catch (const Error&) {
  return std::nullopt;
}

void keep_rates(const std::string& path, const MachineRates& rates) try {
  write_file_atomic(path, rates_text(rates), Sync::No);
} catch (const Error&) {  // then it is measured again
}

}  // namespace

ChipId host_chip() {
  ChipId chip;
#if defined(__x86_64__)
  unsigned a = 0, words[12] = {};
  if (__get_cpuid(0, &a, &words[0], &words[2], &words[1]))
    chip.vendor.assign(reinterpret_cast<const char*>(words), 12);
  if (__get_cpuid(1, &a, &words[0], &words[1], &words[2])) {
    chip.family = static_cast<int>(a >> 8 & 15), chip.model = static_cast<int>(a >> 4 & 15);
    if (chip.family == 6 || chip.family == 15) chip.model += static_cast<int>(a >> 16 & 15) << 4;
    if (chip.family == 15) chip.family += static_cast<int>(a >> 20 & 255);
  }
  for (unsigned i = 0; i < 3; ++i)
    if (!__get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]))
      return chip;
  const char* name = reinterpret_cast<const char*>(words);
  chip.name.assign(name, strnlen(name, sizeof words));
#endif
  return chip;
}

std::optional<MachineRates> rates_of_chip(const ChipId& chip, int vector_bytes) {
  for (const ChipRow& row : kChips) {
    if (chip.vendor != row.vendor || chip.family != row.family || chip.model < row.first_model ||
        chip.model > row.last_model)
      continue;
    MachineRates found = row.rates;
    found.rates.arithmetic = std::min(found.rates.arithmetic, 2.0 * vector_bytes);
    found.rates.l1 = std::min(found.rates.l1, 2.0 * vector_bytes);
    found.rates.l2 = std::min(found.rates.l2, found.rates.l1);
    return found;
  }
  return std::nullopt;
}

MachineRates measure_rates(const Target& target) {
  constexpr std::int64_t kMost = std::int64_t{128} << 20;  // one core never has that much of L3 for itself
  constexpr double kFallen = 0.6;                          // of L3's rate, where L3 no longer holds it all
  constexpr int kSteps = 20000;
  auto rate = [](std::int64_t bytes) { return read_rate(static_cast<std::size_t>(bytes)) * 1e-9; };
  float sink = 0;
  MachineRates found;
  CoreRates& rates = found.rates;
  // Two operations for each float of 4 bytes; in gigabytes a second, that is bytes a nanosecond.
  rates.arithmetic = best_rate([&] { return 2 * multiply_adds(kSteps, &sink); }) * 1e-9;
  rates.l1 = rate(target.l1 / 2);
  rates.l2 = std::min(rate(std::max(target.l2 / 2, 2 * target.l1)), rates.l1);
  // What is further away is never quicker, whatever else ran meanwhile.
  found.l3 = 2 * target.l2;
  rates.l3 = rates.memory = std::min(rate(found.l3), rates.l2);
  for (std::int64_t bytes = 2 * found.l3; bytes <= std::max(std::min(2 * target.l3, kMost), 8 * target.l2);
       bytes *= 2) {
    rates.memory = std::min(rate(bytes), rates.l3);
    if (rates.memory >= kFallen * rates.l3) found.l3 = bytes;
  }
  found.l3 = std::min(found.l3, std::max(target.l3, target.l2));
  return found;
}

std::string rates_text(const MachineRates& found) {
  const CoreRates& r = found.rates;
  return fmt::format("{:.3g} {:.3g} {:.3g} {:.3g} {:.3g} {:.3g}", r.arithmetic, r.l1, r.l2, r.l3, r.memory,
                     static_cast<double>(found.l3) / kMiB);
}

std::optional<MachineRates> parse_rates(std::string_view text) {
  MachineRates found;
  CoreRates& rates = found.rates;
  double mebibytes = 0;
  const char *at = text.data(), *end = text.data() + text.size();
  for (double* number : {&rates.arithmetic, &rates.l1, &rates.l2, &rates.l3, &rates.memory, &mebibytes}) {
    while (at != end && (*at == ' ' || *at == ',')) ++at;
    if (at == end && number == &mebibytes) break;
    const auto [next, error] = std::from_chars(at, end, *number);
    if (error != std::errc() || !(*number > 0 && *number < 1e6)) return std::nullopt;
    at = next;
  }
  found.l3 = static_cast<std::int64_t>(mebibytes * kMiB);
  return at == end ? std::optional(found) : std::nullopt;
}

void fill_rates(Target& target) {
  const std::string& flag = flag_text(Flag::Rates);
  auto fill = [&](const MachineRates& found, const char* from) {
    target.rates = found.rates;
    target.rates_from = from;
    if (found.l3 > 0 && found.l3 < target.l3) target.l3 = found.l3;
  };
  if (flag == "level") return;
  if (!flag.empty() && flag != "measure") {
    const std::optional<MachineRates> given = parse_rates(flag);
    if (!given)
      throw UserError("CPU",
                      fmt::format("LATHE_RATES is '{}', which is not five or six positive numbers", flag))
          .help(
              "write level, measure, or how much a core multiplies and adds and reads from L1, L2, L3 and "
              "memory, "
              "in bytes a cycle, and MiB of L3: \"64 64 32 25.6 8 32\"");
    return fill(*given, "LATHE_RATES");
  }
  if (flag.empty())
    if (const std::optional<MachineRates> known = rates_of_chip(host_chip(), target.vector_bytes))
      return fill(*known, "table");
  // Without a folder to keep them in, they would differ from run to run.
  const std::string path = kept_path(target);
  if (path.empty() && flag.empty()) return;
  std::optional<MachineRates> found = flag.empty() ? kept_rates(path) : std::nullopt;
  if (!found) {
    found = parse_rates(rates_text(measure_rates(target)));  // as they will be read again; none is 0
    if (found && !path.empty()) keep_rates(path, *found);
  }
  if (found) fill(*found, "measured");
}

}  // namespace lathe::backends
