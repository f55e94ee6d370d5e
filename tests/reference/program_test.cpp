// Programs on REF: threads as interpreters of their own, in random order, and the faults that only programs
// can have.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "base/error.h"
#include "helpers.h"

namespace lathe::reference {
namespace {

constexpr DType f32 = dtypes::Float32;

// The nested group reduce of the walkthrough (its example 5) as a program; `first` and `second` stand for the
// two barriers.
std::string nested_group_reduce(std::string first, std::string second) {
  return R"(program "nested"
param 0 u8 5 -w
param 1 u8 7 r-
param 2 i32 5 r-
let %five = Const.idx 5 ()
let %four_threads = Const.idx 4 ()
groups %five 1 1
locals %four_threads 1 1
threads 1
let %g = Special.i32 "g0" [5] ()
let %t = Special.i32 "l0" [4] ()
let %out = Param.u8 [0, 5] ()
let %Y = Param.u8 [1, 7] ()
let %idx = Param.i32 [2, 5] ()
let %S = Define.i32 [0, 4, shared] ()
let %acc = Define.u8 [1, 1, register] ()
let %part = Define.i32 [2, 1, register] ()
let %sum = Define.i32 [3, 1, register] ()
let %zero = Const.i32 0 ()
let %one = Const.i32 1 ()
let %two = Const.i32 2 ()
let %four = Const.i32 4 ()
let %seven = Const.i32 7 ()
let %no = Const.u8 0 ()
%acc0 = Store.void (%acc, %zero, %no)
%want = Load.i32 (%idx, %g)
%kk_a = Mul.i32 (%t, %two)
%j = Range.i32 [0, reduce] (%seven)
  %part0 = Store.void (%part, %zero, %zero)
  %k1 = Range.i32 [1, reduce] (%two)
    %kk = Add.i32 (%kk_a, %k1)
    %above = Less.b1 (%j, %kk)
    %in = Less.b1 (%kk, %seven)
    %not_above = Not.b1 (%above)
    %both = And.b1 (%in, %not_above)
    %mask = Where.i32 (%both, %one, %zero)
    %part_is = Load.i32 (%part, %zero)
    %part_new = Add.i32 (%part_is, %mask)
    %part1 = Store.void (%part, %zero, %part_new)
  %k1_end = End.void (%k1)
  let %part_done = After.i32 (%part, %k1_end)
  %mine = Load.i32 (%part_done, %zero)
  %write = Store.void (%S, %t, %mine)
)" + first +
         R"(
  %sum0 = Store.void (%sum, %zero, %zero)
  %u = Range.i32 [2, reduce] (%four)
    let %ready = After.i32 (%S, %write)
    %x = Load.i32 (%ready, %u)
    %sum_is = Load.i32 (%sum, %zero)
    %sum_new = Add.i32 (%sum_is, %x)
    %sum1 = Store.void (%sum, %zero, %sum_new)
  %u_end = End.void (%u)
)" + second +
         R"(
  let %sum_done = After.i32 (%sum, %u_end)
  %total = Load.i32 (%sum_done, %zero)
  %last = Sub.i32 (%total, %one)
  %hit = Eq.b1 (%want, %last)
  %hit_u8 = Cast.u8 (%hit)
  %y = Load.u8 (%Y, %j)
  %term = Mul.u8 (%y, %hit_u8)
  %acc_is = Load.u8 (%acc, %zero)
  %acc_new = Add.u8 (%acc_is, %term)
  %acc1 = Store.void (%acc, %zero, %acc_new)
%j_end = End.void (%j)
let %acc_done = After.u8 (%acc, %j_end)
%result = Load.u8 (%acc_done, %zero)
%is_first = Eq.b1 (%t, %zero)
%store = Store.void (%out, %g, %result, %is_first)
)";
}

const std::string kFirst = "  %b1 = Barrier.void (%write)", kSecond = "  %b2 = Barrier.void (%u_end)";

std::vector<Array> gather_arrays() {
  return {Array(dtypes::UInt8, 5), Array::of(dtypes::UInt8, std::vector<double>{11, 22, 33, 44, 55, 66, 77}),
          Array::of(dtypes::Int32, std::vector<double>{3, 0, 6, 6, 2})};
}

TEST(ProgramEval, TheNestedGroupReduceIsRightInEveryThreadOrder) {
  Scope scope;
  Program p = parse_program(nested_group_reduce(kFirst, kSecond));
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<Array> a = gather_arrays();
    EvalReport r = run_program(p, a, {.seed = seed});
    ASSERT_TRUE(r.ok()) << "seed " << seed << "\n" << all_faults(r);
    ASSERT_EQ(a[0].numbers(), (std::vector<double>{44, 11, 77, 77, 33})) << "seed " << seed;
  }
}

TEST(ProgramEvalFinds, AMissingBarrierAfterTheWrite) {
  Scope scope;
  std::vector<Array> a = gather_arrays();
  EvalReport r = run_program(parse_program(nested_group_reduce("", kSecond)), a);
  EXPECT_TRUE(has_fault(r, "race", "define 0 (shared)")) << all_faults(r);
}

TEST(ProgramEvalFinds, AMissingBarrierBeforeTheNextWrite) {
  Scope scope;
  std::vector<Array> a = gather_arrays();
  EvalReport r = run_program(parse_program(nested_group_reduce(kFirst, "")), a);
  EXPECT_TRUE(has_fault(r, "race", "define 0 (shared)")) << all_faults(r);
}

TEST(ProgramEvalFinds, ABarrierThatSomeThreadsMiss) {
  Scope scope;
  std::string guarded =
      "  %c = Less.b1 (%t, %two)\n  %if = If.void (%c)\n  %b1 = Barrier.void (%write)\n  %endif = EndIf.void "
      "(%if)";
  std::vector<Array> a = gather_arrays();
  EvalReport r = run_program(parse_program(nested_group_reduce(guarded, kSecond)), a);
  EXPECT_TRUE(has_fault(r, "divergent barrier", "waits at another barrier")) << all_faults(r);
  std::string text =
      nested_group_reduce(kFirst, kSecond) +
      "%c = Less.b1 (%t, %two)\n%if = If.void (%c)\n%b3 = Barrier.void (%store)\n%endif = EndIf.void (%if)\n";
  r = run_program(parse_program(text), a);
  EXPECT_TRUE(has_fault(r, "divergent barrier", "has finished")) << all_faults(r);
}

TEST(ProgramEvalFinds, AnAccumulatorThatWasNeverSet) {
  Scope scope;
  std::string text = nested_group_reduce(kFirst, kSecond);
  std::string line = "%acc0 = Store.void (%acc, %zero, %no)\n";
  text.erase(text.find(line), line.size());
  std::vector<Array> a = gather_arrays();
  EvalReport r = run_program(parse_program(text), a);
  EXPECT_TRUE(has_fault(r, "uninitialised read", "define 1 (register)")) << all_faults(r);
}

TEST(ProgramEvalFinds, AccessesOutOfBounds) {
  Scope scope;
  std::string text = nested_group_reduce(kFirst, kSecond);
  std::string from = "%write = Store.void (%S, %t, %mine)";
  text.replace(text.find(from), from.size(),
               "%t4 = Add.i32 (%t, %one)\n%write = Store.void (%S, %t4, %mine)");
  std::vector<Array> a = gather_arrays();
  EvalReport r = run_program(parse_program(text), a);
  EXPECT_TRUE(has_fault(r, "out of bounds", "store of define 0 (shared) at 4")) << all_faults(r);
}

TEST(ProgramEvalFinds, TwoGroupsThatWriteOneElement) {
  Scope scope;
  std::string text = nested_group_reduce(kFirst, kSecond);
  std::string from = "%store = Store.void (%out, %g, %result, %is_first)";
  text.replace(text.find(from), from.size(), "%store = Store.void (%out, %zero, %result, %is_first)");
  std::vector<Array> a = gather_arrays();
  EvalReport r = run_program(parse_program(text), a);
  EXPECT_TRUE(has_fault(r, "race", "store of param 0 at 0")) << all_faults(r);
}

TEST(ProgramEvalFinds, TwoThreadsThatWriteOneElement) {
  Scope scope;
  std::string text = nested_group_reduce(kFirst, kSecond);
  std::string from = ", %is_first)";
  text.replace(text.rfind(from), from.size(), ")");
  std::vector<Array> a = gather_arrays();
  EvalReport r = run_program(parse_program(text), a);
  EXPECT_TRUE(has_fault(r, "race", "store of param 0")) << all_faults(r);
}

TEST(ProgramEval, AnOperandThatIsNotListedIsAnError) {
  Scope scope;
  std::string text = nested_group_reduce(kFirst, kSecond);
  std::string from = "%y = Load.u8";
  text.replace(text.find(from), from.size(), "let " + from);
  std::vector<Array> a = gather_arrays();
  EXPECT_THROW(run_program(parse_program(text), a), InternalError);
}

// A CPU program: parts by "t", a loop over vectors of 4, a scalar tail under a gate.
constexpr const char* kVectorAdd = R"(program "add"
param 0 f32 64 -w
param 1 f32 64 r-
let %n = Var.idx "n" [1, 4] ()
variables %n
groups 1 1 1
locals 1 1 1
threads %n
let %t = Special.i32 "t" [0] ()
let %x = Param.f32 [1, 64] ()
let %out = Param.f32 [0, 64] ()
let %four = Const.i32 4 ()
let %sixteen = Const.i32 16 ()
let %acc = Define.f32x4 [0, 1, register] ()
let %zero = Const.i32 0 ()
let %one = Const.f32 1 ()
%ones = Splat.f32x4 (%one)
%base = Mul.i32 (%t, %sixteen)
%i = Range.i32 [0, loop] (%four)
  %at_a = Mul.i32 (%i, %four)
  %at = Add.i32 (%base, %at_a)
  %v = Load.f32x4 (%x, %at)
  %set = Store.void (%acc, %zero, %v)
  let %set_acc = After.f32x4 (%acc, %set)
  %w = Load.f32x4 (%set_acc, %zero)
  %sum = Add.f32x4 (%w, %ones)
  %store = Store.void (%out, %at, %sum)
%end = End.void (%i)
)";

TEST(ProgramEval, PartsOfALaunchAndVectorsAndVariables) {
  Scope scope;
  Program p = parse_program(kVectorAdd);
  std::vector<Array> a = {Array(f32, 64), random_array(f32, 64, 3)};
  EvalReport r = run_program(p, a, {.seed = 5}, {{"n", 3}});
  EXPECT_TRUE(r.ok()) << all_faults(r);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(a[0].number(i), i < 48 ? float(a[1].number(i)) + 1 : 0);
}

TEST(ProgramEval, ManyGroupsAreSampledAndSaySo) {
  Scope scope;
  std::string text = kVectorAdd;
  text.replace(text.find("[1, 4] ()"), 9, "[1, 400000] ()");
  for (const char* size : {"[0, 64] ()", "[1, 64] ()"})
    text.replace(text.find(size), 10, std::string(size).substr(0, 4) + "6400000] ()");
  Program p = parse_program(text);
  std::vector<Array> a = {Array(f32, 6400000), Array(f32, 6400000)};
  EvalReport r = run_program(p, a, {.max_ops = 1e5}, {{"n", 400000}});
  EXPECT_TRUE(r.ok()) << all_faults(r);
  EXPECT_TRUE(r.sampled);
  EXPECT_TRUE(r.written[0].front());
  EXPECT_TRUE(r.written[0].back());
  EXPECT_EQ(a[0].number(6399999), 1);
  EXPECT_LT(r.ops, 1e6);
}

// Ops that stand for one instruction of some machines (ir/machine_ops.h).
TEST(ProgramEval, OpsOfSomeMachinesMeanWhatTheirTableSays) {
  Scope scope;
  Program p = parse_program(R"(program "ops"
param 0 bf16 4 -w
param 1 f32 12 -w
param 2 f32 4 r-
param 3 i32 4 r-
groups 1 1 1
locals 1 1 1
threads 1
let %narrowed = Param.bf16 [0, 4] ()
let %out = Param.f32 [1, 12] ()
let %in = Param.f32 [2, 4] ()
let %places = Param.i32 [3, 4] ()
let %zero = Const.i32 0 ()
let %four = Const.i32 4 ()
let %eight = Const.i32 8 ()
%x = Load.f32x4 (%in, %zero)
%small = Narrow.bf16x4 (%x)
%s0 = Store.void (%narrowed, %zero, %small)
%f = Fraction.f32x4 (%x)
%s1 = Store.void (%out, %zero, %f)
%two = Scale.f32x4 (%f, %x)
%s2 = Store.void (%out, %four, %two)
%i = Load.i32x4 (%places, %zero)
%t = Table.f32x4 [-8, 5, 6, 7] (%i)
%s3 = Store.void (%out, %eight, %t)
)");
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<Array> a = {Array(dtypes::BFloat16, 4), Array(f32, 12),
                          Array::of(f32, std::vector<double>{0x1p-127, 2.5, 3.75, infinity}),
                          Array::of(dtypes::Int32, std::vector<double>{0, 3, 5, -1})};
  EvalReport r = run_program(p, a);
  ASSERT_TRUE(r.ok()) << all_faults(r);
  EXPECT_EQ(a[0].numbers(), (std::vector<double>{0, 2.5, 3.75, infinity}));
  const std::vector<double> got = a[1].numbers();
  EXPECT_EQ(got[0], 0x1p-127);
  EXPECT_EQ(got[1], 0.5);    // 2.5 is next to 2, the even one of two
  EXPECT_EQ(got[2], -0.25);  // and 3.75 to 4
  EXPECT_TRUE(std::isnan(got[3]));
  EXPECT_EQ(got[5], 0.5 * 4);
  EXPECT_EQ(got[6], -0.25 * 16);
  EXPECT_EQ(got[7], infinity) << "whatever is scaled";
  EXPECT_EQ(std::vector<double>(got.begin() + 8, got.end()), (std::vector<double>{-8, 7, 5, 7}));
}

TEST(ProgramEval, RowsOfAnAccessLieAPitchApart) {
  Scope scope;
  Program p = parse_program(R"(program "rows"
param 0 f32 10 -w
param 1 f32 20 r-
groups 1 1 1
locals 1 1 1
threads 1
let %out = Param.f32 [0, 10] ()
let %in = Param.f32 [1, 20] ()
let %one = Const.i32 1 ()
let %two = Const.i32 2 ()
%x = Load.f32x4 [-1, 2, 7] (%in, %two)
%s = Store.void [-1, 2, 5] (%out, %one, %x)
)");
  std::vector<double> numbers(20);
  std::iota(numbers.begin(), numbers.end(), 100.0);
  std::vector<Array> a = {Array(f32, 10), Array::of(f32, numbers)};
  EvalReport r = run_program(p, a);
  ASSERT_TRUE(r.ok()) << all_faults(r);
  EXPECT_EQ(a[0].numbers(), (std::vector<double>{0, 102, 103, 0, 0, 0, 109, 110, 0, 0}));
}

}  // namespace
}  // namespace lathe::reference
