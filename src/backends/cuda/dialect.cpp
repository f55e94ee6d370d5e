#include "backends/cuda/dialect.h"

#include <vector>

#include "target/matrix_units.h"

namespace lathe::backends {
namespace {

using render::CDialect;
using render::Spelling;

// clang-format off
constexpr Spelling kSpecials[] = {
    {"g0", "blockIdx.x"},  {"g1", "blockIdx.y"},  {"g2", "blockIdx.z"},
    {"l0", "threadIdx.x"}, {"l1", "threadIdx.y"}, {"l2", "threadIdx.z"},
};

constexpr Spelling kTypes[] = {{"b1", "bool"}};

// CUDA's own functions instead of the compiler's built-ins. Square roots are correctly rounded by a compiler option.
constexpr Spelling kHelpers[] = {
    {"fma",   "$helper $T lathe_fma_$s($T x, $T y, $T z) { return fma$f(x, y, z); }"},
    {"sqrt",  "$helper $T lathe_sqrt_$s($T x) { return sqrt$f(x); }"},
    {"exp2",  "$helper $T lathe_exp2_$s($T x) { return exp2$f(x); }"},
    {"log2",  "$helper $T lathe_log2_$s($T x) { return log2$f(x); }"},
    {"sin",   "$helper $T lathe_sin_$s($T x) { return sin$f(x); }"},
    {"cos",   "$helper $T lathe_cos_$s($T x) { return cos$f(x); }"},
    {"trunc", "$helper $T lathe_trunc_$s($T x) { return trunc$f(x); }"},
    {"floor", "$helper $T lathe_floor_$s($T x) { return floor$f(x); }"},
    // One instruction for floats, which passes NaN on as the helpers of other dialects do; others as they do.
    {"max", "$helper $T lathe_max_$s($T x, $T y) {\n"
            "  if (sizeof($T) > 4 || ($T)0.5 == 0) return x != x || x > y ? x : y;\n"
            "  float r;\n  asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : \"f\"((float)x), \"f\"((float)y));\n  return ($T)r;\n}"},
    {"bfloat16_pair", "$helper unsigned int lathe_bfloat16_pair_$s(float low, float high) {\n"
                      "  unsigned int r;\n  asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(r) : \"f\"(high), \"f\"(low));\n  return r;\n}"},
    // Half as its bits: one instruction each way, and no header.
    {"half_to_float", "$helper float lathe_half_to_float_$s(unsigned short x) {\n"
                      "  float r;\n  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(x));\n  return r;\n}"},
    {"float_to_bfloat16", "$helper unsigned short lathe_float_to_bfloat16_$s(float x) {\n"
                          "  unsigned short r;\n  asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n  return r;\n}"},
    {"float_to_half", "$helper unsigned short lathe_float_to_half_$s(float x) {\n"
                      "  unsigned short r;\n  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n  return r;\n}"},
};
// clang-format on

}  // namespace

const CDialect& cuda_c() {
  static const CDialect dialect = [] {
    CDialect d;
    d.name = "CUDA C";
    d.prologue = "#define __builtin_memcpy memcpy\n";
    d.kernel = "extern \"C\" __global__ void __launch_bounds__($block)";
    d.helper = "static __device__ __forceinline__";
    d.packed_arguments = false;
    d.shared = "extern __shared__ __align__($align) unsigned char lathe_shared[];";
    d.barrier = "__syncthreads();";
    d.vectors = false;
    d.vector_type = "struct __align__($align) $name { $T v[$lanes]; };";
    d.wraps = false;
    d.native_half = d.native_bfloat16 = true;
    d.stack_bytes = 0;  // there is no scratch argument: local memory takes all
    d.specials = kSpecials;
    d.types = kTypes;
    d.helpers = kHelpers;
    static const std::vector<std::string> units = units_of_features("+sm_80,+sm_89,+sm_90a");
    d.units = units;
    return d;
  }();
  return dialect;
}

}  // namespace lathe::backends
