#include "render/c_helpers.h"

namespace lathe::render {
namespace {

// clang-format off
constexpr CHelper kHelpers[] = {
    // NaN passes on: the first operand if it is NaN, else the second wins every comparison that is not true.
    {"max",       "", "$helper $T lathe_max_$s($T x, $T y) { return x != x || x > y ? x : y; }"},
    {"min",       "", "$helper $T lathe_min_$s($T x, $T y) { return x != x || x < y ? x : y; }"},
    {"fma",       "", "$helper $T lathe_fma_$s($T x, $T y, $T z) { return __builtin_fma$f(x, y, z); }"},
    {"sqrt",      "", "$helper $T lathe_sqrt_$s($T x) { return __builtin_sqrt$f(x); }"},
    {"exp2",      "", "$helper $T lathe_exp2_$s($T x) { return __builtin_exp2$f(x); }"},
    {"log2",      "", "$helper $T lathe_log2_$s($T x) { return __builtin_log2$f(x); }"},
    {"sin",       "", "$helper $T lathe_sin_$s($T x) { return __builtin_sin$f(x); }"},
    {"cos",       "", "$helper $T lathe_cos_$s($T x) { return __builtin_cos$f(x); }"},
    {"trunc",     "", "$helper $T lathe_trunc_$s($T x) { return __builtin_trunc$f(x); }"},
    {"floor",     "", "$helper $T lathe_floor_$s($T x) { return __builtin_floor$f(x); }"},
    // Integers: division by zero gives 0, the smallest value / -1 wraps, shifting all bits out leaves 0 or the sign.
    {"div",       "", "$helper $T lathe_div_$s($T x, $T y) { return y == 0 ? 0 : y == -1 ? ($T)(0 - ($U)x) : x / y; }"},
    {"mod",       "", "$helper $T lathe_mod_$s($T x, $T y) { return y == 0 || y == -1 ? 0 : x % y; }"},
    {"udiv",      "", "$helper $T lathe_udiv_$s($T x, $T y) { return y == 0 ? 0 : x / y; }"},
    {"umod",      "", "$helper $T lathe_umod_$s($T x, $T y) { return y == 0 ? 0 : x % y; }"},
    {"floordiv",  "div mod", "$helper $T lathe_floordiv_$s($T x, $T y) {\n"
                  "  $T q = lathe_div_$s(x, y);\n"
                  "  return y != 0 && lathe_mod_$s(x, y) != 0 && (x < 0) != (y < 0) ? q - 1 : q;\n}"},
    {"floormod",  "mod", "$helper $T lathe_floormod_$s($T x, $T y) {\n"
                  "  $T r = lathe_mod_$s(x, y);\n"
                  "  return r != 0 && (r < 0) != (y < 0) ? r + y : r;\n}"},
    {"shl",       "", "$helper $T lathe_shl_$s($T x, $T y) { return ($U)y >= $bits ? 0 : ($T)(($U)x << ($U)y); }"},
    {"shr",       "", "$helper $T lathe_shr_$s($T x, $T y) { return ($U)y >= $bits ? (x < 0 ? -1 : 0) : x >> ($U)y; }"},
    // Float to integer: toward zero, saturating, NaN gives 0.
    {"to_i32",    "", "$helper int lathe_to_i32_$s($T x) {\n"
                  "  return x != x ? 0 : x <= -2147483648.0 ? -2147483647 - 1 : x >= 2147483647.0 ? 2147483647 : (int)x;\n}"},
    {"to_i64",    "", "$helper long long lathe_to_i64_$s($T x) {\n"
                  "  if (x != x) return 0;\n"
                  "  if (x <= -9223372036854775808.0) return -9223372036854775807ll - 1;\n"
                  "  return x >= 9223372036854775808.0 ? 9223372036854775807ll : (long long)x;\n}"},
    {"to_u64",    "to_i64", "$helper unsigned long long lathe_to_u64_$s($T x) {\n"
                  "  if (!(x >= 0)) return (unsigned long long)lathe_to_i64_$s(x);\n"
                  "  return x >= 18446744073709551616.0 ? 18446744073709551615ull : (unsigned long long)x;\n}"},
    // Ops that are one instruction of some machines (ir/machine_ops.h).
    {"narrow",    "", "$helper unsigned short lathe_narrow_$s(float x) {\n"
                  "  unsigned int u;\n  __builtin_memcpy(&u, &x, 4);\n"
                  "  if ((u & 0x7f800000) == 0) u &= 0x80000000;\n"
                  "  return x != x ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;\n}"},
    {"fraction",  "", "$helper float lathe_fraction_$s(float x) { return x - __builtin_rintf(x); }"},
    {"scale",     "", "$helper float lathe_scale_$s(float x, float n) {\n"
                  "  if (n != n) return n;\n"
                  "  if (n - n != 0) return n > 0 ? n : 0;\n"
                  "  return (float)__builtin_ldexp(x, n > 600 ? 600 : n < -600 ? -600 : (int)__builtin_rintf(n));\n}"},
};
// clang-format on

}  // namespace

std::span<const CHelper> c_helpers() { return kHelpers; }

const CHelper* find_c_helper(std::string_view name) {
  for (const CHelper& helper : kHelpers)
    if (helper.name == name) return &helper;
  return nullptr;
}

}  // namespace lathe::render
