#include "render/unit_text.h"

#include <fmt/format.h>

#include "base/error.h"

namespace lathe::render {
namespace {

// clang-format off
constexpr std::string_view kPairsOfBytes =
    "llvm.x86.ssse3.pmadd.ub.sw.128|llvm.x86.avx2.pmadd.ub.sw|llvm.x86.avx512.pmaddubs.w.512";
constexpr std::string_view kPairsOfWords =
    "llvm.x86.sse2.pmadd.wd|llvm.x86.avx2.pmadd.wd|llvm.x86.avx512.pmaddw.d.512";
constexpr std::string_view kAddBytes =
    "vpmaddubsw %[y], %[x], %[t]; vpmaddwd %[ones], %[t], %[t]; vpaddd %[t], %[sum], %[sum]";
constexpr std::string_view kAddWords = "vpmaddwd %[y], %[x], %[t]; vpaddd %[t], %[sum], %[sum]";

constexpr UnitText kTexts[] = {
    // unit             llvm                               registers, assembly
    {"tdpbf16ps",      "llvm.x86.tdpbf16ps",              "",  ""},
    {"tdpbssd",        "llvm.x86.tdpbssd",                "",  ""},
    {"tdpbsud",        "llvm.x86.tdpbsud",                "",  ""},
    {"tdpbusd",        "llvm.x86.tdpbusd",                "",  ""},
    {"tdpbuud",        "llvm.x86.tdpbuud",                "",  ""},
    {"vdpbf16ps",      "llvm.x86.avx512bf16.dpbf16ps.{}", "v", "vdpbf16ps %[y], %[x], %[sum]"},
    {"vpdpbusd",       "llvm.x86.avx512.vpdpbusd.{}",     "v", "vpdpbusd %[y], %[x], %[sum]"},
    {"vpdpwssd",       "llvm.x86.avx512.vpdpwssd.{}",     "v", "vpdpwssd %[y], %[x], %[sum]"},
    {"vpdpbusd_vex",   "llvm.x86.avx512.vpdpbusd.{}",     "x", "%{vex%} vpdpbusd %[y], %[x], %[sum]"},
    {"vpdpwssd_vex",   "llvm.x86.avx512.vpdpwssd.{}",     "x", "%{vex%} vpdpwssd %[y], %[x], %[sum]"},
    {"vpmaddubsw_z",   kPairsOfBytes,                     "v", kAddBytes},
    {"vpmaddwd_z",     kPairsOfWords,                     "v", kAddWords},
    {"vpmaddubsw",     kPairsOfBytes,                     "x", kAddBytes},
    {"vpmaddwd",       kPairsOfWords,                     "x", kAddWords},
    {"mma_bf16",       "",                                "",  "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"},
    {"mma_s8",         "",                                "",  "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"},
    {"mma_s8u8",       "",                                "",  "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32"},
    {"mma_u8s8",       "",                                "",  "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"},
    {"mma_u8",         "",                                "",  "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32"},
    {"wgmma_bf16_256", "",                                "",  "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"},
    {"wgmma_bf16_192", "",                                "",  "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16"},
    {"wgmma_bf16_128", "",                                "",  "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"},
    {"wgmma_bf16_64",  "",                                "",  "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"},
};
// clang-format on

}  // namespace

const UnitText& text_of(const MatrixUnit& unit) {
  for (const UnitText& row : kTexts)
    if (row.unit == unit.name) return row;
  throw InternalError("render", fmt::format("matrix unit {} has no text", unit.name));
}

std::string intrinsic_of(const MatrixUnit& unit, int lanes) {
  std::string_view name = text_of(unit).llvm;
  if (name.find('|') == std::string_view::npos) return fmt::format(fmt::runtime(name), 32 * lanes);
  for (int n = 4; n < lanes; n *= 2) name.remove_prefix(name.find('|') + 1);
  return std::string(name.substr(0, name.find('|')));
}

std::string pair_sums_intrinsic(int lanes) { return intrinsic_of(*find_matrix_unit("vpmaddwd"), lanes); }

}  // namespace lathe::render
