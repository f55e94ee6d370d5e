#include "target/matrix_units.h"

#include <algorithm>

namespace lathe {
namespace {

// clang-format off
constexpr MatrixUnit kUnits[] = {
    // name          feature        dot     m   n   k   lanes  llvm                                registers, assembly
    {"tdpbf16ps",    "amx-bf16",    "bf16", 16, 16, 16, 8,     "llvm.x86.tdpbf16ps",               "", ""},
    {"tdpbssd",      "amx-int8",    "i8i8", 16, 16, 16, 8,     "llvm.x86.tdpbssd",                 "", ""},
    {"tdpbsud",      "amx-int8",    "i8u8", 16, 16, 16, 8,     "llvm.x86.tdpbsud",                 "", ""},
    {"tdpbusd",      "amx-int8",    "u8i8", 16, 16, 16, 8,     "llvm.x86.tdpbusd",                 "", ""},
    {"tdpbuud",      "amx-int8",    "u8u8", 16, 16, 16, 8,     "llvm.x86.tdpbuud",                 "", ""},
    {"vdpbf16ps",    "avx512bf16",  "bf16", 1,  1,  1,  16,    "llvm.x86.avx512bf16.dpbf16ps.{}",  "v", "vdpbf16ps %2, %1, %0"},
    {"vpdpbusd",     "avx512vnni",  "u8i8", 1,  1,  1,  16,    "llvm.x86.avx512.vpdpbusd.{}",      "v", "vpdpbusd %2, %1, %0"},
    {"vpdpwssd",     "avx512vnni",  "i16",  1,  1,  1,  16,    "llvm.x86.avx512.vpdpwssd.{}",      "v", "vpdpwssd %2, %1, %0"},
    {"vpdpbusd_vex", "avxvnni",     "u8i8", 1,  1,  1,  8,     "llvm.x86.avx512.vpdpbusd.{}",      "x", "%{vex%} vpdpbusd %2, %1, %0"},
    {"vpdpwssd_vex", "avxvnni",     "i16",  1,  1,  1,  8,     "llvm.x86.avx512.vpdpwssd.{}",      "x", "%{vex%} vpdpwssd %2, %1, %0"},
};
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

void for_each_feature(std::string_view features, const std::function<void(std::string_view)>& use) {
  while (!features.empty()) {
    const std::size_t comma = features.find(',');
    std::string_view word = features.substr(0, comma);
    features = comma == std::string_view::npos ? "" : features.substr(comma + 1);
    if (word.starts_with('+')) use(word.substr(1));
  }
}

std::vector<std::string> units_of_features(std::string_view features) {
  std::vector<std::string> names;
  for (const MatrixUnit& unit : kUnits)
    for_each_feature(features, [&](std::string_view feature) {
      if (feature == unit.feature) names.emplace_back(unit.name);
    });
  return names;
}

}  // namespace lathe
