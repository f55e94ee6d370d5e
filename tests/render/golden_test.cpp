// The text of small programs, whole, so that a change of either printer is seen as text.
#include <gtest/gtest.h>

#include "ir/build.h"
#include "render/c_printer.h"
#include "render/c_text.h"
#include "render/llvm_text.h"
#include "render/prepare.h"
#include "rules/linear.h"

namespace lathe::render {
namespace {

Node i32(std::int64_t v) { return int_const(dtypes::Int32, v); }

Target v3() {
  Target target = named_target("x86-64-v3");
  target.features = "+avx2,+fma,+f16c";
  return target;
}

Node loop(Node extent, std::int64_t id) {
  AttrData d{"", {id, static_cast<std::int64_t>(RangeKind::Loop)}};
  return intern(Op::Range, dtypes::Int32, {extent}, Attr::of(d));
}
Node close(Node range) { return intern(Op::End, dtypes::Void, {range}); }

// out[i] = max(x[i] * 2, 0), eight lanes at a time.
Program scale() {
  Program p;
  p.name = "scale";
  Node out = param(dtypes::Float32, 0, 64), x = param(dtypes::Float32, 1, 64);
  p.params = {{0, dtypes::Float32, 64, false, true}, {1, dtypes::Float32, 64, true, false}};
  Node r = loop(i32(8), 0), at = r * i32(8), v = load(x, at, Node(), 8);
  Node two = splat(float_const(dtypes::Float32, 2), 8), zero = splat(float_const(dtypes::Float32, 0), 8);
  Node twice = intern(Op::Mul, v.dtype(), {v, two}), y = intern(Op::Max, v.dtype(), {twice, zero});
  p.code = {two, zero, r, at, v, twice, y, store(out, at, y), close(r)};
  return p;
}

TEST(RenderGolden, AVectorLoopInLlvm) {
  Scope scope;
  EXPECT_EQ(llvm_text(scale(), v3()), R"(; scale for x86-64-v3
target triple = "x86_64-unknown-linux-gnu"

define void @scale(ptr noalias %buffers, ptr noalias %variables, i64 %part, ptr noalias %scratch) #0 {
entry:
  %b0 = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %b0, align 8
  %b1 = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %b1, align 8
  br label %loop0
loop0:
  %r0.0 = phi i64 [ 0, %entry ], [ %r0.0.next, %loop0 ]
  %v0 = mul nsw i64 %r0.0, 8
  %v1 = getelementptr float, ptr %p1, i64 %v0
  %v2 = load <8 x float>, ptr %v1, align 4
  %v3 = fmul <8 x float> %v2, splat (float 0x4000000000000000)
  %v4 = fcmp ogt <8 x float> splat (float 0x0000000000000000), %v3
  %v5 = select <8 x i1> %v4, <8 x float> splat (float 0x0000000000000000), <8 x float> %v3
  %v6 = getelementptr float, ptr %p0, i64 %v0
  store <8 x float> %v5, ptr %v6, align 4
  %r0.0.next = add nuw nsw i64 %r0.0, 1
  %v7 = icmp slt i64 %r0.0.next, 8
  br i1 %v7, label %loop0, label %done0
done0:
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
)");
}

TEST(RenderGolden, AVectorLoopInC) {
  Scope scope;
  EXPECT_EQ(c_text(scale(), gnu_c()), R"C(typedef float lathe_f32x8 __attribute__((vector_size(32)));
typedef signed char lathe_b1x8 __attribute__((vector_size(8)));
typedef int lathe_i32x8 __attribute__((vector_size(32)));
static inline lathe_f32x8 lathe_load_f32x8(const float* p) {
  lathe_f32x8 r = {0};
  __builtin_memcpy(&r, p, 32);
  return r;
}
static inline lathe_f32x8 lathe_select_f32x8(lathe_b1x8 c, lathe_f32x8 x, lathe_f32x8 y) {
  lathe_i32x8 k = __builtin_convertvector(c, lathe_i32x8);
  return (lathe_f32x8)((k & (lathe_i32x8)x) | (~k & (lathe_i32x8)y));
}
static inline void lathe_store_f32x8(float* p, lathe_f32x8 x) {
  __builtin_memcpy(p, &x, 32);
}

void scale(void** buffers, const long long* variables, long long part, char* scratch) {
  float* p0 = buffers[0];
  const float* p1 = buffers[1];
  const lathe_f32x8 v0 = (lathe_f32x8){0x1p+1f, 0x1p+1f, 0x1p+1f, 0x1p+1f, 0x1p+1f, 0x1p+1f, 0x1p+1f, 0x1p+1f};
  const lathe_f32x8 v1 = (lathe_f32x8){0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f, 0x0p+0f};
  for (int r0 = 0; r0 < 8; ++r0) {
    const int v2 = (r0 * 8);
    const lathe_f32x8 v3 = lathe_load_f32x8((p1 + v2));
    const lathe_f32x8 v4 = (v3 * v0);
    const lathe_f32x8 v5 = lathe_select_f32x8(__builtin_convertvector((v1 > v4), lathe_b1x8), v1, v4);
    lathe_store_f32x8((p0 + v2), v5);
  }
}
)C");
}

// The same in a dialect without vector extensions, with direct arguments and group indices.
CDialect group_dialect() {
  static constexpr Spelling kSpecials[] = {{"g0", "group_index()"}, {"l0", "thread_index()"}};
  static constexpr Spelling kTypes[] = {{"i64", "long"}};
  static constexpr Spelling kHelpers[] = {
      {"max", "$helper $T lathe_max_$s($T x, $T y) { return max_nan(x, y); }"}};
  static constexpr OpSpelling kOps[] = {{Op::Sqrt, "native_sqrt({0})"}};
  CDialect d;
  d.name = "test";
  d.prologue = "#include <groups>";
  d.kernel = "kernel [[threads($block)]] void";
  d.helper = "inline";
  d.packed_arguments = false;
  d.buffer = "global $T* $name";
  d.const_buffer = "global const $T* $name";
  d.shared = "shared char lathe_shared[];";
  d.barrier = "meet();";
  d.vectors = false;
  d.vector_type = "struct alignas($align) $name { $T v[$lanes]; };";
  d.stack_bytes = 0;
  d.specials = kSpecials;
  d.types = kTypes;
  d.helpers = kHelpers;
  d.ops = kOps;
  return d;
}

TEST(RenderGolden, ADialectListsOnlyHowItDiffers) {
  Scope scope;
  Program p;
  p.name = "grouped";
  Node out = param(dtypes::Float32, 0, 64), x = param(dtypes::Float32, 1, 64), n = variable("n", 1, 8);
  p.params = {{0, dtypes::Float32, 64, false, true}, {1, dtypes::Float32, 64, true, false}};
  AttrData d{"n", {1, 8}};
  Node wide = intern(Op::Var, dtypes::Int64, {}, Attr::of(d));
  p.variables = {n};
  p.locals[0] = index_const(16);
  Node g = special("g0", 8, dtypes::Int32), l = special("l0", 16, dtypes::Int32);
  Node shared = define(dtypes::Float32, 0, 64, Space::Shared);
  Node at = l * i32(4), from = g * i32(64) + at, v = load(x, from, Node(), 4), root = apply(Op::Sqrt, v);
  Node put = store(shared, at, root);
  Node meet[] = {put};
  Node wall = barrier(meet), walls[] = {wall};
  Node other = load(after(shared, walls), l + i32(1), less(l, i32(15))), best = max(other, load(x, l));
  p.code = {g,   l,    at,         g * i32(64),      from,  v,          root,
            put, wall, l + i32(1), less(l, i32(15)), other, load(x, l), best};
  p.code.emplace_back(cast(wide, dtypes::Int32));
  p.code.emplace_back(l + cast(wide, dtypes::Int32));
  p.code.emplace_back(store(out, l + cast(wide, dtypes::Int32), best));
  EXPECT_EQ(c_text(p, group_dialect()), R"C(#include <groups>
struct alignas(16) lathe_f32x4 { float v[4]; };
inline float lathe_max_f32(float x, float y) { return max_nan(x, y); }

kernel [[threads(16)]] void grouped(global float* p0, global const float* p1, const long n0) {
  shared char lathe_shared[];
  float* m0 = (float*)(lathe_shared + 0);
  const int g0 = (int)group_index();
  const int l0 = (int)thread_index();
  const int v0 = (l0 * 4);
  const int v1 = (g0 * 64);
  const int v2 = (v0 + v1);
  const lathe_f32x4 v3 = *(const lathe_f32x4*)(p1 + v2);
  const lathe_f32x4 v4 = {{native_sqrt(v3.v[0]), native_sqrt(v3.v[1]), native_sqrt(v3.v[2]), native_sqrt(v3.v[3])}};
  *(lathe_f32x4*)(m0 + v0) = v4;
  meet();
  const int v5 = (l0 + 1);
  const _Bool v6 = (l0 < 15);
  const float v7 = (v6 ? m0[v5] : 0);
  const float v8 = p1[l0];
  const float v9 = lathe_max_f32(v8, v7);
  const int v10 = ((int)n0);
  const int v11 = (l0 + v10);
  p0[v11] = v9;
}
)C");
}

// A program that loads, converts and stores half: bits in memory, conversion by the machine or by arithmetic.
Program double_half() {
  Program p;
  p.name = "half";
  Node out = param(dtypes::Float16, 0, 1), x = param(dtypes::Float16, 1, 1);
  p.params = {{0, dtypes::Float16, 1, false, true}, {1, dtypes::Float16, 1, true, false}};
  Node v = load(x, i32(0)), wide = cast(v, dtypes::Float32), sum = wide + wide,
       narrow = cast(sum, dtypes::Float16);
  p.code = {v, wide, sum, narrow, store(out, i32(0), narrow)};
  return p;
}

TEST(RenderGolden, HalfIsConvertedByTheMachineWhereItCan) {
  Scope scope;
  Program lowered = lower_small_floats(double_half(), {true, false});
  std::string ops;
  for (const NodeRef& node : lowered.code)
    ops += std::string(info(node->op()).name) + "." + node->dtype().str() + " ";
  EXPECT_EQ(ops, "Load.u16 Bitcast.f16 Cast.f32 Add.f32 Cast.f16 Bitcast.u16 Store.void ");
}

TEST(RenderGolden, HalfIsBitsAndFloatsWhereItCannot) {
  Scope scope;
  Program lowered = lower_small_floats(double_half(), {});
  for (const NodeRef& node : lowered.code) EXPECT_NE(node->dtype(), dtypes::Float16);
  EXPECT_EQ(lowered.params[0].dtype, dtypes::UInt16);
}

TEST(RenderGolden, AMultipleIsSeenThroughSumsAndProducts) {
  Scope scope;
  Node l = special("l0", 16, dtypes::Int32), g = special("g0", 16, dtypes::Int32);
  EXPECT_TRUE(is_multiple(l * i32(8) + g * i32(12), 4));
  EXPECT_TRUE(is_multiple(apply(Op::Shl, l, i32(2)), 4));
  EXPECT_TRUE(is_multiple(cast(l * i32(4), dtypes::Int64), 4));
  EXPECT_FALSE(is_multiple(l * i32(8) + g * i32(6), 4));
  EXPECT_FALSE(is_multiple(l * i32(8) + i32(2), 4));
  EXPECT_FALSE(is_multiple(l, 2));
  EXPECT_TRUE(is_multiple(l, 1));
}

}  // namespace
}  // namespace lathe::render
