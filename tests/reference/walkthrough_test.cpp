// Kernels of the walkthrough that need more than loops: attention as one reduce that carries a tuple, and a
// grouped reduce inside another reduce with shared memory and barriers. Written in the text form, run in many
// thread orders.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "helpers.h"

namespace lathe::reference {
namespace {

constexpr DType f32 = dtypes::Float32;

// softmax(Q K^T) V for 6 rows, 10 keys in 5 tiles of 2, width 4. Base-2 exponentials. Component 0 is the
// running maximum, 1 the scaled sum, 2 the scaled output, which depends on d as well.
constexpr const char* kAttention = R"(
%i_n = Const.idx 6 ()
%i = Range.idx [0, global] (%i_n)
%d_n = Const.idx 4 ()
%d = Range.idx [1, global] (%d_n)
%j0_n = Const.idx 5 ()
%j0 = Range.idx [2, reduce] (%j0_n)
%two = Const.idx 2 ()
%j1 = Range.idx [3, reduce] (%two)
%e = Range.idx [4, reduce] (%d_n)
%q = Param.f32 [1, 24] ()
%k = Param.f32 [2, 40] ()
%v = Param.f32 [3, 40] ()
%j_a = Mul.idx (%j0, %two)
%j = Add.idx (%j_a, %j1)
%q_a = Mul.idx (%i, %d_n)
%q_at = Add.idx (%q_a, %e)
%k_a = Mul.idx (%j, %d_n)
%k_at = Add.idx (%k_a, %e)
%q_x = Load.f32 (%q, %q_at)
%k_x = Load.f32 (%k, %k_at)
%qk = Mul.f32 (%q_x, %k_x)
%s = Reduce.f32 Add (%qk, %e)
# block form: M = max_j1 s, p = exp2(s - m'), L = sum_j1 p, O[d] = sum_j1 p * v[d]
%low = Const.f32 -inf ()
%zero = Const.f32 0 ()
%m = Carry.f32 [0, 0, 0] ()
%l = Carry.f32 [0, 1, 0] ()
%o = Carry.f32 [0, 2, 0] ()
%M = Reduce.f32 Max (%s, %j1)
%m_new = Max.f32 (%m, %M)
%masked = Eq.b1 (%m_new, %low)
%ms = Where.f32 (%masked, %zero, %m_new)
%p_a = Sub.f32 (%s, %ms)
%p = Exp2.f32 (%p_a)
%L = Reduce.f32 Add (%p, %j1)
%v_at = Add.idx (%k_a, %d)
%v_x = Load.f32 (%v, %v_at)
%pv = Mul.f32 (%p, %v_x)
%O = Reduce.f32 Add (%pv, %j1)
%a_a = Sub.f32 (%m, %ms)
%a = Exp2.f32 (%a_a)
%l_a = Mul.f32 (%l, %a)
%l_new = Add.f32 (%l_a, %L)
%o_a = Mul.f32 (%o, %a)
%o_new = Add.f32 (%o_a, %O)
%fold = Fold.void [0, 3, 0] (%low, %zero, %zero, %m_new, %l_new, %o_new, %j0)
%l_end = Get.f32 1 (%fold)
%o_end = Get.f32 2 (%fold)
%result = Div.f32 (%o_end, %l_end)
%out_at = Add.idx (%q_a, %d)
%out = Param.f32 [0, 24] ()
%store = Store.void (%out, %out_at, %result)
%end = End.void (%store, %i, %d)
%sink = Sink.void (%end)
)";

TEST(Walkthrough, AttentionIsOneReduceThatCarriesMaximumSumAndOutput) {
  Scope scope;
  Node kernel = parse_graph(kAttention);
  std::vector<Array> a = {Array(f32, 24), random_array(f32, 24, 1), random_array(f32, 40, 2),
                          random_array(f32, 40, 3)};
  EvalReport report = run_kernel(kernel, a);
  EXPECT_TRUE(report.ok()) << all_faults(report);
  for (int i = 0; i < 6; ++i) {
    double s[10], top = -INFINITY, sum = 0;
    for (int j = 0; j < 10; ++j) {
      s[j] = 0;
      for (int e = 0; e < 4; ++e) s[j] += a[1].number(i * 4 + e) * a[2].number(j * 4 + e);
      top = std::max(top, s[j]);
    }
    for (double x : s) sum += std::exp2(x - top);
    for (int d = 0; d < 4; ++d) {
      double o = 0;
      for (int j = 0; j < 10; ++j) o += std::exp2(s[j] - top) / sum * a[3].number(j * 4 + d);
      EXPECT_NEAR(a[0].number(i * 4 + d), o, 1e-5) << "row " << i << " column " << d;
    }
  }
}

TEST(Walkthrough, AComponentDependsOnlyOnTheRangesOfWhatItReads) {
  Scope scope;
  // The scaled sum is the same for all d, so it may be stored for each row alone.
  std::string text = kAttention;
  text = text.substr(0, text.find("%result"));
  text +=
      "%out = Param.f32 [0, 6] ()\n%store = Store.void (%out, %i, %l_end)\n%end = End.void (%store, "
      "%i)\n%sink = Sink.void (%end)\n";
  Node kernel = parse_graph(text);
  std::vector<Array> a = {Array(f32, 6), random_array(f32, 24, 1), random_array(f32, 40, 2),
                          random_array(f32, 40, 3)};
  EvalReport report = run_kernel(kernel, a);
  EXPECT_TRUE(report.ok()) << all_faults(report);
  for (int i = 0; i < 6; ++i) EXPECT_GE(a[0].number(i), 1);
}

// The position of the largest element of each row, after its fold became two accumulators: both Ends over k
// are one loop, because each step reads both running values.
constexpr const char* kLoweredArgMax = R"(
%zero = Const.idx 0 ()
%rows = Const.idx 3 ()
%i = Range.idx [0, global] (%rows)
%columns = Const.idx 5 ()
%k = Range.idx [1, reduce] (%columns)
%best = Define.f32 [0, 1, register] ()
%place = Define.i32 [1, 1, register] ()
%low = Const.f32 -inf ()
%none = Const.i32 0 ()
%best_here = After.f32 (%best, %i)
%best_init = Store.void (%best_here, %zero, %low)
%place_here = After.i32 (%place, %i)
%place_init = Store.void (%place_here, %zero, %none)
%best_in = After.f32 (%best, %best_init, %k)
%place_in = After.i32 (%place, %place_init, %k)
%best_is = Load.f32 (%best_in, %zero)
%place_is = Load.i32 (%place_in, %zero)
%best_read = After.f32 (%best_in, %best_is, %place_is)
%place_read = After.i32 (%place_in, %best_is, %place_is)
%row = Mul.idx (%i, %columns)
%at = Add.idx (%row, %k)
%x_all = Param.f32 [1, 15] ()
%x = Load.f32 (%x_all, %at)
%more = Less.b1 (%best_is, %x)
%best_new = Where.f32 (%more, %x, %best_is)
%k_i32 = Cast.i32 (%k)
%place_new = Where.i32 (%more, %k_i32, %place_is)
%best_set = Store.void (%best_read, %zero, %best_new)
%place_set = Store.void (%place_read, %zero, %place_new)
%best_loop = End.void (%best_set, %k)
%place_loop = End.void (%place_set, %k)
%place_done = After.i32 (%place, %best_loop, %place_loop)
%result = Load.i32 (%place_done, %zero)
%out = Param.i32 [0, 3] ()
%store = Store.void (%out, %i, %result)
%end = End.void (%store, %i)
%sink = Sink.void (%end)
)";

TEST(Walkthrough, EndsOverTheSameRangesWithoutAnOrderAreOneLoop) {
  Scope scope;
  std::vector<Array> a = {Array(dtypes::Int32, 3),
                          Array::of(f32, std::vector<double>{1, 9, 3, 4, 5, 7, 1, 2, 3, 4, 1, 2, 3, 4, 8})};
  EvalReport report = run_kernel(parse_graph(kLoweredArgMax), a);
  EXPECT_TRUE(report.ok()) << all_faults(report);
  EXPECT_EQ(a[0].numbers(), (std::vector<double>{1, 0, 4}));
}

// out[i] = sum_j Y[j] * (idx[i] == (sum_k mask(j, k)) - 1) with the inner sum spread over 4 threads. K = 7 is
// padded to 8; mask(j, k) is k <= j. Each thread sums a contiguous part into shared memory.
// The second barrier follows every thread's total into its own register, so that the next j writes only after
// that.
const char* const kSecond = R"(%own = Define.i32 [1, 1, register] ()
%keep = Store.void (%own, %zero, %sum)
%read = Barrier.void (%keep)
%own_now = After.i32 (%own, %read)
%total = Load.i32 (%own_now, %zero))";
const char* const kNoSecond = "%total = Add.i32 (%sum, %none)";

std::string nested_group_reduce(const char* first, const char* second = kSecond) {
  return fmt::format(R"(
%i_n = Const.idx 5 ()
%i = Range.idx [0, global] (%i_n)
%four = Const.idx 4 ()
%t = Range.idx [1, local] (%four)
%j_n = Const.idx 7 ()
%j = Range.idx [2, reduce] (%j_n)
%two = Const.idx 2 ()
%k1 = Range.idx [3, reduce] (%two)
%u = Range.idx [4, reduce] (%four)
%Y = Param.u8 [1, 7] ()
%idx = Param.i32 [2, 5] ()
%out = Param.u8 [0, 5] ()
%kk_a = Mul.idx (%t, %two)
%kk = Add.idx (%kk_a, %k1)
%above = Less.b1 (%j, %kk)
%in = Less.b1 (%kk, %j_n)
%not_above = Not.b1 (%above)
%both = And.b1 (%in, %not_above)
%one = Const.i32 1 ()
%none = Const.i32 0 ()
%zero = Const.idx 0 ()
%mask = Where.i32 (%both, %one, %none)
%part = Reduce.i32 Add (%mask, %k1)
%S = Define.i32 [0, 4, shared] ()
%write = Store.void (%S, %t, %part)
{}
%ready = After.i32 (%S, %shared)
%x = Load.i32 (%ready, %u)
%sum = Reduce.i32 Add (%x, %u)
{}
%last = Sub.i32 (%total, %one)
%want = Load.i32 (%idx, %i)
%hit = Eq.b1 (%want, %last)
%hit_u8 = Cast.u8 (%hit)
%y = Load.u8 (%Y, %j)
%term = Mul.u8 (%y, %hit_u8)
%acc = Reduce.u8 Add (%term, %j)
%is_first = Eq.b1 (%t, %zero)
%store = Store.void (%out, %i, %acc, %is_first)
%end = End.void (%store, %i, %t)
%sink = Sink.void (%end)
)",
                     first, second);
}

std::vector<Array> gather_arrays() {
  return {Array(dtypes::UInt8, 5), Array::of(dtypes::UInt8, std::vector<double>{11, 22, 33, 44, 55, 66, 77}),
          Array::of(dtypes::Int32, std::vector<double>{3, 0, 6, 6, 2})};
}

TEST(Walkthrough, AGroupedReduceInsideAnotherReduceIsRightInEveryThreadOrder) {
  Scope scope;
  Node kernel = parse_graph(nested_group_reduce("%shared = Barrier.void (%write)"));
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<Array> a = gather_arrays();
    EvalReport report = run_kernel(kernel, a, {.seed = seed});
    ASSERT_TRUE(report.ok()) << "seed " << seed << "\n" << all_faults(report);
    ASSERT_EQ(a[0].numbers(), (std::vector<double>{44, 11, 77, 77, 33})) << "seed " << seed;
  }
}

TEST(Walkthrough, WithoutItsBarrierTheGroupedReduceIsARace) {
  Scope scope;
  Node kernel = parse_graph(nested_group_reduce("%shared = End.void (%write, %t)"));
  std::vector<Array> a = gather_arrays();
  EvalReport report = run_kernel(kernel, a);
  EXPECT_TRUE(has_fault(report, "race", "define 0 (shared)")) << all_faults(report);
}

TEST(Walkthrough, WithoutTheBarrierBeforeTheNextWriteTheGroupedReduceIsARace) {
  Scope scope;
  Node kernel = parse_graph(nested_group_reduce("%shared = Barrier.void (%write)", kNoSecond));
  std::vector<Array> a = gather_arrays();
  EvalReport report = run_kernel(kernel, a);
  EXPECT_TRUE(has_fault(report, "race", "define 0 (shared)")) << all_faults(report);
}

TEST(Walkthrough, AStoreThatClosedItsThreadRangeIsDoneOnce) {
  Scope scope;
  // The write to shared memory is ended over t before the barrier, so the total belongs to no thread.
  std::string text = nested_group_reduce("%w = End.void (%write, %t)\n%shared = Barrier.void (%w)");
  text.replace(text.find(", %is_first)"), 12, ")");
  text.replace(text.find("%end = End.void (%store, %i, %t)"), 32, "%end = End.void (%store, %i)");
  Node kernel = parse_graph(text);
  std::vector<Array> a = gather_arrays();
  EvalReport report = run_kernel(kernel, a, {.seed = 3});
  ASSERT_TRUE(report.ok()) << all_faults(report);
  EXPECT_EQ(a[0].numbers(), (std::vector<double>{44, 11, 77, 77, 33}));
}

}  // namespace
}  // namespace lathe::reference
