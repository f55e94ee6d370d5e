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
    {"mma_f16",        "",                                "",  "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"},
    {"mma_tf32",       "",                                "",  "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"},
    {"mma_e4m3",       "",                                "",  "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"},
    {"mma_e5m2",       "",                                "",  "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32"},
    {"mma_e4m3_e5m2",  "",                                "",  "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32"},
    {"mma_e5m2_e4m3",  "",                                "",  "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32"},
    // Signs of both factors, and for numbers of 16 bits their orders.
    {"wgmma_bf16",     "", "", "wgmma.mma_async.sync.aligned.m64n{}k16.f32.bf16.bf16", ", 1, 1, $x, $y"},
    {"wgmma_f16",      "", "", "wgmma.mma_async.sync.aligned.m64n{}k16.f32.f16.f16",   ", 1, 1, $x, $y"},
    {"wgmma_tf32",     "", "", "wgmma.mma_async.sync.aligned.m64n{}k8.f32.tf32.tf32",  ", 1, 1"},
    {"wgmma_e4m3",     "", "", "wgmma.mma_async.sync.aligned.m64n{}k32.f32.e4m3.e4m3", ", 1, 1"},
    {"wgmma_e5m2",     "", "", "wgmma.mma_async.sync.aligned.m64n{}k32.f32.e5m2.e5m2", ", 1, 1"},
    {"wgmma_e4m3_e5m2", "", "", "wgmma.mma_async.sync.aligned.m64n{}k32.f32.e4m3.e5m2", ", 1, 1"},
    {"wgmma_e5m2_e4m3", "", "", "wgmma.mma_async.sync.aligned.m64n{}k32.f32.e5m2.e4m3", ", 1, 1"},
    {"wgmma_s8",       "", "", "wgmma.mma_async.sync.aligned.m64n{}k32.s32.s8.s8",     ""},
    {"wgmma_s8u8",     "", "", "wgmma.mma_async.sync.aligned.m64n{}k32.s32.s8.u8",     ""},
    {"wgmma_u8s8",     "", "", "wgmma.mma_async.sync.aligned.m64n{}k32.s32.u8.s8",     ""},
    {"wgmma_u8",       "", "", "wgmma.mma_async.sync.aligned.m64n{}k32.s32.u8.u8",     ""},
};
// clang-format on

}  // namespace

const UnitText& text_of(const MatrixUnit& unit) {
  std::string_view name = unit.name;
  if (unit.reads == UnitReads::Panels) name = name.substr(0, name.rfind('_'));
  for (const UnitText& row : kTexts)
    if (row.unit == name) return row;
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
