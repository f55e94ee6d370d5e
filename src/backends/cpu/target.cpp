// The x86-64 levels as targets, and what a name may add to them.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"
#include "target/matrix_units.h"
#include "target/target_family.h"

namespace lathe::backends {
namespace {

// Bytes a cycle of one core. AVX2 and AVX-512: two multiply-adds and two loads of 32 bytes, AVX-512 in two
// halves; L2, L3 and memory as measured on AMD Zen 4 (machine_rates.cpp). SSE: one multiplication, one
// addition and one load of 16 bytes, and the others in proportion.
constexpr CoreRates kSse{.arithmetic = 16, .l1 = 16, .l2 = 8, .l3 = 6.4, .memory = 2};
constexpr CoreRates kAvx{.arithmetic = 64, .l1 = 64, .l2 = 32, .l3 = 25.6, .memory = 8};

// One row per level. Caches are those of a plain server core of that level: the rows are for golden files and
// offline compiles; a real machine fills in its own.
struct X86Row {
  const char* name;
  int vector_bytes, vector_registers;
  bool fma;
  bool avx512;  // masks, and what AVX-512 F, VL, DQ and BW have beside wider vectors
  std::int64_t l1, l2, l3;
  const CoreRates& rates;
  const char* features;  // that matrix units ask for
};
// clang-format off
constexpr X86Row kX86[] = {
    // name       vector registers fma    avx512 l1         l2         l3         rates  features
    {"x86-64-v2", 16,    16,       false, false, 32 * kKiB, 256 * kKiB, 8 * kMiB,  kSse, ""},
    {"x86-64-v3", 32,    16,       true,  false, 32 * kKiB, 512 * kKiB, 16 * kMiB, kAvx, "+avx2"},
    {"x86-64-v4", 64,    32,       true,  true,  32 * kKiB, 1 * kMiB,   32 * kMiB, kAvx, "+avx2,+avx512bw"},
};
// clang-format on

Target x86(const X86Row& row) {
  Target t;
  t.name = t.cpu = row.name;
  t.vectors = t.threads = true;
  t.triple = "x86_64-unknown-linux-gnu";
  t.fma = row.fma;
  t.strided_lanes = t.scales = row.avx512;  // gathers and scatters; vscalefps, vrndscaleps
  t.small_masks = row.avx512;               // vmovdqu8, vmovdqu16
  t.table_lanes = row.avx512 ? 16 : 0;      // vpermps
  t.vector_bytes = row.vector_bytes;
  t.vector_registers = row.vector_registers;
  t.max_load_bytes = row.vector_bytes;
  t.cores = 2;
  t.l1 = row.l1, t.l2 = row.l2, t.l3 = row.l3;
  t.rates = row.rates;
  t.shared_bytes = 64 * kMiB;  // scratch of one part, in ordinary memory
  t.emulated = all_small_floats();
  if (row.vector_bytes >= 32) t.converted = {Scalar::Float16};  // F16C
  t.units = units_of_features(row.features);
  return t;
}

// What a name may add to a level, by LLVM's names: all that the CPU backend looks for beyond the levels.
constexpr std::string_view kExtraFeatures[] = {"avxvnni",    "avx512vnni", "avx512vbmi", "avx512bf16",
                                               "avx512fp16", "amx-tile",   "amx-bf16",   "amx-int8"};

// "x86-64-v4+avx512bf16": a level, and features beyond it.
Target x86_with(const X86Row& row, std::string_view features) {
  Target t = x86(row);
  t.name += features;
  std::string list;
  for (const char c : features) list += c == '+' ? std::string(list.empty() ? "+" : ",+") : std::string(1, c);
  for_each_feature(list, [&](std::string_view feature) {
    if (std::find(std::begin(kExtraFeatures), std::end(kExtraFeatures), feature) != std::end(kExtraFeatures))
      return;
    UserError error("target", fmt::format("target '{}' names the unknown feature '{}'", t.name, feature));
    if (auto near = nearest_word(feature, kExtraFeatures))
      error.note(fmt::format("did you mean '{}'?", *near));
    throw std::move(error).help(fmt::format("features beyond a level: {}", fmt::join(kExtraFeatures, ", ")));
  });
  t.features = list;
  t.units = units_of_features(std::string(row.features) + "," + list);
  t.rounds_products = has_feature(list, "avx512bf16");
  return t;
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const X86Row& row : kX86) out.emplace_back(row.name);
  return out;
}

std::optional<Target> find(std::string_view name) {
  for (const X86Row& row : kX86) {
    if (name == row.name) return x86(row);
    const std::string_view level = row.name;
    if (name.starts_with(level) && name.substr(level.size()).starts_with('+'))
      return x86_with(row, name.substr(level.size()));
  }
  return std::nullopt;
}

}  // namespace

TargetFamily cpu_targets();

TargetFamily cpu_targets() { return {names, find}; }

}  // namespace lathe::backends
