#include "target/matrix_units.h"

#include <algorithm>

#include <fmt/format.h>

namespace lathe {
namespace {

// clang-format off
constexpr auto Done = UnitSum::Done, Add = UnitSum::Add, Pairs = UnitSum::AddPairs;
constexpr auto Matrices = UnitReads::Matrices, Panels = UnitReads::Panels;
// Units of four warps: one kind of product, fragments of four widths.
#define LATHE_WGMMA(name, feature, dot)                                         \
  {"wgmma_" name "_256", feature, dot, 64, 256, 32, 1, Done, 128, Panels, 8},    \
  {"wgmma_" name "_192", feature, dot, 64, 192, 32, 2, Done, 128, Panels, 8},    \
  {"wgmma_" name "_128", feature, dot, 64, 128, 32, 2, Done, 128, Panels, 8},    \
  {"wgmma_" name "_64",  feature, dot, 64, 64,  32, 4, Done, 128, Panels, 8}
constexpr MatrixUnit kUnits[] = {
    // name            feature       dot     m   n    k   lanes  sum    threads, reads, step
    {"tdpbf16ps",      "amx-bf16",   "bf16", 16, 16,  16, 8,     Done},
    {"tdpbssd",        "amx-int8",   "i8i8", 16, 16,  16, 8,     Done},
    {"tdpbsud",        "amx-int8",   "i8u8", 16, 16,  16, 8,     Done},
    {"tdpbusd",        "amx-int8",   "u8i8", 16, 16,  16, 8,     Done},
    {"tdpbuud",        "amx-int8",   "u8u8", 16, 16,  16, 8,     Done},
    {"vdpbf16ps",      "avx512bf16", "bf16", 1,  1,   1,  16,    Done},
    {"vpdpbusd",       "avx512vnni", "u8i8", 1,  1,   1,  16,    Done},
    {"vpdpwssd",       "avx512vnni", "i16",  1,  1,   1,  16,    Done},
    {"vpdpbusd_vex",   "avxvnni",    "u8i8", 1,  1,   1,  8,     Done},
    {"vpdpwssd_vex",   "avxvnni",    "i16",  1,  1,   1,  8,     Done},
    {"vpmaddubsw_z",   "avx512bw",   "u7i8", 1,  1,   1,  16,    Pairs},
    {"vpmaddwd_z",     "avx512bw",   "i16",  1,  1,   1,  16,    Add},
    {"vpmaddubsw",     "avx2",       "u7i8", 1,  1,   1,  8,     Pairs},
    {"vpmaddwd",       "avx2",       "i16",  1,  1,   1,  8,     Add},
    {"mma_bf16",       "sm_80",      "bf16", 16, 8,   8,  64,    Done,  32, Matrices},
    {"mma_f16",        "sm_80",      "f16",  16, 8,   8,  64,    Done,  32, Matrices},
    {"mma_tf32",       "sm_80",      "tf32", 16, 8,   8,  64,    Done,  32},
    {"mma_s8",         "sm_80",      "i8i8", 16, 8,   8,  64,    Done,  32},
    {"mma_s8u8",       "sm_80",      "i8u8", 16, 8,   8,  64,    Done,  32},
    {"mma_u8s8",       "sm_80",      "u8i8", 16, 8,   8,  64,    Done,  32},
    {"mma_u8",         "sm_80",      "u8u8", 16, 8,   8,  64,    Done,  32},
    {"mma_e4m3",       "sm_89",      "e4m3", 16, 8,   8,  64,    Done,  32},
    {"mma_e5m2",       "sm_89",      "e5m2", 16, 8,   8,  64,    Done,  32},
    {"mma_e4m3_e5m2",  "sm_89",      "e4m3_e5m2", 16, 8, 8, 64,  Done,  32},
    {"mma_e5m2_e4m3",  "sm_89",      "e5m2_e4m3", 16, 8, 8, 64,  Done,  32},
    LATHE_WGMMA("bf16",      "sm_90a", "bf16"),
    LATHE_WGMMA("f16",       "sm_90a", "f16"),
    LATHE_WGMMA("tf32",      "sm_90a", "tf32"),
    LATHE_WGMMA("e4m3",      "sm_90a", "e4m3"),
    LATHE_WGMMA("e5m2",      "sm_90a", "e5m2"),
    LATHE_WGMMA("e4m3_e5m2", "sm_90a", "e4m3_e5m2"),
    LATHE_WGMMA("e5m2_e4m3", "sm_90a", "e5m2_e4m3"),
    LATHE_WGMMA("s8",        "sm_90a", "i8i8"),
    LATHE_WGMMA("s8u8",      "sm_90a", "i8u8"),
    LATHE_WGMMA("u8s8",      "sm_90a", "u8i8"),
    LATHE_WGMMA("u8",        "sm_90a", "u8u8"),
};
#undef LATHE_WGMMA
// clang-format on

}  // namespace

std::span<const MatrixUnit> matrix_units() { return kUnits; }

const MatrixUnit* find_matrix_unit(std::string_view name) {
  for (const MatrixUnit& unit : kUnits)
    if (unit.name == name) return &unit;
  return nullptr;
}

bool is_fragment_unit(std::string_view name) {
  const MatrixUnit* unit = find_matrix_unit(name);
  return unit != nullptr && unit->m > 1;
}

bool has_fragments(const Target& target) {
  return std::any_of(target.units.begin(), target.units.end(), is_fragment_unit);
}

const MatrixUnit* unit_for_dot(std::span<const std::string> units, std::string_view dot, bool fragments) {
  for (const std::string& name : units)
    if (const MatrixUnit* unit = find_matrix_unit(name);
        unit != nullptr && unit->dot == dot && (unit->m > 1) == fragments)
      return unit;
  return nullptr;
}

int scratch_registers(const MatrixUnit& unit) {
  return unit.sum == UnitSum::Done ? 0 : unit.sum == UnitSum::Add ? 1 : 2;
}

void for_each_feature(std::string_view features, const std::function<void(std::string_view)>& use) {
  while (!features.empty()) {
    const std::size_t comma = features.find(',');
    std::string_view word = features.substr(0, comma);
    features = comma == std::string_view::npos ? "" : features.substr(comma + 1);
    if (word.starts_with('+')) use(word.substr(1));
  }
}

bool has_feature(std::string_view features, std::string_view name) {
  bool found = false;
  for_each_feature(features, [&](std::string_view feature) { found |= feature == name; });
  return found;
}

std::vector<std::string> units_of_features(std::string_view features) {
  std::vector<std::string> names;
  for (const MatrixUnit& unit : kUnits)
    for_each_feature(features, [&](std::string_view feature) {
      const bool better = (unit.threads == 1 && unit_for_dot(names, unit.dot, unit.m > 1) != nullptr) ||
                          (unit.dot == "u7i8" && unit_for_dot(names, "u8i8") != nullptr);
      if (feature == unit.feature && !better) names.emplace_back(unit.name);
    });
  return names;
}

}  // namespace lathe
