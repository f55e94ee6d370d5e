#include "target/matrix_units.h"

#include <algorithm>

#include <fmt/format.h>

namespace lathe {
namespace {

// clang-format off
constexpr std::string_view kPairsOfBytes =
    "llvm.x86.ssse3.pmadd.ub.sw.128|llvm.x86.avx2.pmadd.ub.sw|llvm.x86.avx512.pmaddubs.w.512";
constexpr std::string_view kPairsOfWords =
    "llvm.x86.sse2.pmadd.wd|llvm.x86.avx2.pmadd.wd|llvm.x86.avx512.pmaddw.d.512";
constexpr std::string_view kAddBytes =
    "vpmaddubsw %[y], %[x], %[t]; vpmaddwd %[ones], %[t], %[t]; vpaddd %[t], %[sum], %[sum]";
constexpr std::string_view kAddWords = "vpmaddwd %[y], %[x], %[t]; vpaddd %[t], %[sum], %[sum]";

constexpr auto Done = UnitSum::Done, Add = UnitSum::Add, Pairs = UnitSum::AddPairs;
constexpr auto Matrices = UnitReads::Matrices, Panels = UnitReads::Panels;
constexpr MatrixUnit kUnits[] = {
    // name          feature        dot     m   n   k   lanes  sum    llvm                                registers, assembly
    {"tdpbf16ps",    "amx-bf16",    "bf16", 16, 16, 16, 8,     Done,  "llvm.x86.tdpbf16ps",               "", ""},
    {"tdpbssd",      "amx-int8",    "i8i8", 16, 16, 16, 8,     Done,  "llvm.x86.tdpbssd",                 "", ""},
    {"tdpbsud",      "amx-int8",    "i8u8", 16, 16, 16, 8,     Done,  "llvm.x86.tdpbsud",                 "", ""},
    {"tdpbusd",      "amx-int8",    "u8i8", 16, 16, 16, 8,     Done,  "llvm.x86.tdpbusd",                 "", ""},
    {"tdpbuud",      "amx-int8",    "u8u8", 16, 16, 16, 8,     Done,  "llvm.x86.tdpbuud",                 "", ""},
    {"vdpbf16ps",    "avx512bf16",  "bf16", 1,  1,  1,  16,    Done,  "llvm.x86.avx512bf16.dpbf16ps.{}",  "v", "vdpbf16ps %[y], %[x], %[sum]"},
    {"vpdpbusd",     "avx512vnni",  "u8i8", 1,  1,  1,  16,    Done,  "llvm.x86.avx512.vpdpbusd.{}",      "v", "vpdpbusd %[y], %[x], %[sum]"},
    {"vpdpwssd",     "avx512vnni",  "i16",  1,  1,  1,  16,    Done,  "llvm.x86.avx512.vpdpwssd.{}",      "v", "vpdpwssd %[y], %[x], %[sum]"},
    {"vpdpbusd_vex", "avxvnni",     "u8i8", 1,  1,  1,  8,     Done,  "llvm.x86.avx512.vpdpbusd.{}",      "x", "%{vex%} vpdpbusd %[y], %[x], %[sum]"},
    {"vpdpwssd_vex", "avxvnni",     "i16",  1,  1,  1,  8,     Done,  "llvm.x86.avx512.vpdpwssd.{}",      "x", "%{vex%} vpdpwssd %[y], %[x], %[sum]"},
    {"vpmaddubsw_z", "avx512bw",    "u7i8", 1,  1,  1,  16,    Pairs, kPairsOfBytes,                      "v", kAddBytes},
    {"vpmaddwd_z",   "avx512bw",    "i16",  1,  1,  1,  16,    Add,   kPairsOfWords,                      "v", kAddWords},
    {"vpmaddubsw",   "avx2",        "u7i8", 1,  1,  1,  8,     Pairs, kPairsOfBytes,                      "x", kAddBytes},
    {"vpmaddwd",     "avx2",        "i16",  1,  1,  1,  8,     Add,   kPairsOfWords,                      "x", kAddWords},
    {"mma_bf16",     "sm_80",       "bf16", 16, 8,  8,  64,    Done,  "", "", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 32, Matrices},
    {"mma_s8",       "sm_80",       "i8i8", 16, 8,  8,  64,    Done,  "", "", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 32},
    {"mma_s8u8",     "sm_80",       "i8u8", 16, 8,  8,  64,    Done,  "", "", "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", 32},
    {"mma_u8s8",     "sm_80",       "u8i8", 16, 8,  8,  64,    Done,  "", "", "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", 32},
    {"mma_u8",       "sm_80",       "u8u8", 16, 8,  8,  64,    Done,  "", "", "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32", 32},
    {"wgmma_bf16_256", "sm_90a",    "bf16", 64, 256, 32, 1,    Done,  "", "", "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", 128, Panels, 8},
    {"wgmma_bf16_192", "sm_90a",    "bf16", 64, 192, 32, 2,    Done,  "", "", "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16", 128, Panels, 8},
    {"wgmma_bf16_128", "sm_90a",    "bf16", 64, 128, 32, 2,    Done,  "", "", "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", 128, Panels, 8},
    {"wgmma_bf16_64",  "sm_90a",    "bf16", 64, 64,  32, 4,    Done,  "", "", "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16",  128, Panels, 8},
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

std::string intrinsic_of(const MatrixUnit& unit, int lanes) {
  std::string_view name = unit.llvm;
  if (name.find('|') == std::string_view::npos) return fmt::format(fmt::runtime(name), 32 * lanes);
  for (int n = 4; n < lanes; n *= 2) name.remove_prefix(name.find('|') + 1);
  return std::string(name.substr(0, name.find('|')));
}

std::string pair_sums_intrinsic(int lanes) { return intrinsic_of(*find_matrix_unit("vpmaddwd"), lanes); }

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
