// Bounds proofs: what intervals prove, what needs the solver, what nobody can prove, and planted faults.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <thread>
#include <vector>

#include "ir/build.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "reference/reference.h"
#include "verify/bounds.h"
#include "verify/guard.h"
#include "verify/solver.h"

namespace lathe::verify {
namespace {

constexpr DType f32 = dtypes::Float32;

Node global(std::int64_t n, std::int64_t id) { return range(index_const(n), id, RangeKind::Global); }
Node c(std::int64_t v) { return index_const(v); }

// The verdict on a load of `size` elements at an index under a gate.
AccessProof verdict(Node index, std::int64_t size, Node gate = Node(), BoundsOptions options = {},
                    std::uint16_t lanes = 1) {
  options.effort = 10000000;
  Node x = load(param(f32, 1, size), index, gate, lanes);
  return prove_bounds(
             sink(std::vector<Node>{store(param(f32, 0, 4), c(0), lanes > 1 ? hreduce(Op::Add, x) : x)}),
             options)
      .accesses[0];
}

TEST(Bounds, IntervalsProvePlainIndices) {
  Scope scope;
  Node i = global(4, 0), j = global(6, 1);
  EXPECT_EQ(verdict(i * c(6) + j, 24).proof, Proof::Interval);
  EXPECT_EQ(verdict(floor_mod(i * c(6) + j, c(5)), 5).proof, Proof::Interval);
}

TEST(Bounds, AGateNarrowsTheIntervalsOfWhatItCompares) {
  Scope scope;
  Node i = global(12, 0);
  // A padded axis: 2 <= i < 10, read at i - 2 of 8.
  Node gate = logical_and(logical_not(less(i, c(2))), less(i, c(10)));
  BoundsOptions no_solver{.solver = false};
  EXPECT_EQ(verdict(i - c(2), 8, gate, no_solver).proof, Proof::Interval);
  EXPECT_EQ(verdict(i - c(2), 8, less(i, c(10)), no_solver).proof, Proof::Unproved);
  // The compared expression is part of the index.
  Node shifted = i * c(3) - c(4);
  Node both = logical_and(less(c(-1), shifted), less(shifted, c(9)));
  EXPECT_EQ(verdict(shifted, 9, both, no_solver).proof, Proof::Interval);
}

TEST(Bounds, AGateThatIsNeverTrueProvesAnything) {
  Scope scope;
  Node i = global(12, 0);
  EXPECT_EQ(verdict(i + c(100), 8, less(i, c(0))).proof, Proof::Interval);
}

TEST(Bounds, TheSolverProvesWhatIntervalsCannot) {
  if (!has_solver()) GTEST_SKIP() << "built without a solver";
  Scope scope;
  Node i = global(10, 0), j = global(10, 1);
  // i + j < 12 says nothing about i or j alone.
  EXPECT_EQ(verdict(i + j, 12, less(i + j, c(12)), {.solver = false}).proof, Proof::Interval);
  EXPECT_EQ(verdict(i * c(2) + j * c(2), 24, less(i + j, c(12)), {.solver = false}).proof, Proof::Interval);
  EXPECT_EQ(verdict(i * c(2) + j * c(3), 36, less(i + j, c(12)), {.solver = false}).proof, Proof::Unproved);
  EXPECT_EQ(verdict(i * c(2) + j * c(3), 36, less(i + j, c(12))).proof, Proof::Solver);
  // i - i % 4 + 3 stays below the next multiple of four.
  Node k = global(16, 2);
  EXPECT_EQ(verdict(k - floor_mod(k, c(4)) + c(3), 16).proof, Proof::Solver);
}

// The least effort with which a question is answered.
unsigned least_effort(const BoundsQuestion& question) {
  unsigned low = 0, high = 1u << 20;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (ask_solver(question, middle).kind == BoundsAnswer::Kind::Unknown ? low : high) = middle;
  }
  return high;
}

TEST(Bounds, TheSolversLimitIsTheSameOnALoadedMachineAndAfterOtherQuestions) {
  if (!has_solver()) GTEST_SKIP() << "built without a solver";
  Scope scope;
  Node i = global(77, 0), j = global(9, 1), k = global(16, 2);
  const BoundsQuestion question{floor_mod(i * c(9) + j, c(21)) + floor_div(i * c(5) + k, c(7)),
                                less(i + j, c(50)), 70, 1};
  const unsigned alone = least_effort(question);
  EXPECT_LT(alone, 1u << 20) << "the question is never answered";
  EXPECT_GT(alone, 10u);
  const BoundsQuestion other{k - floor_mod(k, c(4)) + c(3), Node(), 16, 1};
  EXPECT_EQ(ask_solver(other, 100000).kind, BoundsAnswer::Kind::Inside);
  std::array<unsigned, 6> together{};
  std::vector<std::thread> threads;
  for (unsigned& effort : together)
    threads.emplace_back([&] {
      Scope own;
      effort = least_effort(question);
    });
  for (std::thread& thread : threads) thread.join();
  for (unsigned effort : together) EXPECT_EQ(effort, alone);
}

TEST(Bounds, RaggedExtentsAndVariablesAreTakenIntoAccount) {
  if (!has_solver()) GTEST_SKIP() << "built without a solver";
  Scope scope;
  Node n = variable("n", 1, 8);
  Node i = range(n, 0, RangeKind::Global), j = range(n - i, 1, RangeKind::Reduce);
  EXPECT_EQ(verdict(i + j, 8).proof, Proof::Solver);
  AccessProof p = verdict(i + j, 7);
  EXPECT_EQ(p.proof, Proof::Refuted) << p.counterexample;
}

TEST(Bounds, VectorsAreProvedForEveryLane) {
  if (!has_solver()) GTEST_SKIP() << "built without a solver";
  Scope scope;
  Node i = global(4, 0);
  EXPECT_EQ(verdict(i * c(4), 16, Node(), {}, 4).proof, Proof::Interval);
  AccessProof p = verdict(i * c(4), 15, Node(), {}, 4);
  EXPECT_EQ(p.proof, Proof::Refuted);
  EXPECT_EQ(p.counterexample, "r0 = 3: index 15 of 15");
  Node lanes = splat(i * c(4), 4) + iota(dtypes::Index, 4);
  EXPECT_EQ(verdict(lanes, 16).proof, Proof::Interval);
  EXPECT_EQ(verdict(lanes, 13).proof, Proof::Refuted);
  EXPECT_EQ(verdict(lanes, 13, less(lanes, splat(c(13), 4))).proof, Proof::Solver);
}

TEST(Bounds, AnIndexFromMemoryIsUnprovedUnlessItsGateChecksIt) {
  Scope scope;
  Node i = global(4, 0);
  Node at = cast(load(param(dtypes::Int32, 2, 4), i), dtypes::Index);
  auto proof_of = [&](Node gate) {
    Node x = load(param(f32, 1, 50), at, gate);
    for (const AccessProof& a : prove_bounds(sink(std::vector<Node>{store(param(f32, 0, 4), i, x)})).accesses)
      if (a.access == x) return a.proof;
    return Proof::Refuted;
  };
  EXPECT_EQ(proof_of(Node()), Proof::Unproved);
  EXPECT_EQ(proof_of(logical_and(logical_not(less(at, c(0))), less(at, c(50)))), Proof::Interval);
}

TEST(Bounds, PlantedFaultsAreRefutedWithValuesThatBreakThem) {
  if (!has_solver()) GTEST_SKIP() << "built without a solver";
  Scope scope;
  Node i = global(4, 0), j = global(6, 1);
  AccessProof p = verdict(i * c(6) + j, 23);
  EXPECT_EQ(p.proof, Proof::Refuted);
  EXPECT_NE(p.counterexample.find("index 23 of 23"), std::string::npos) << p.counterexample;
  p = verdict(i - c(1), 4);
  EXPECT_EQ(p.proof, Proof::Refuted);
  EXPECT_EQ(p.counterexample, "r0 = 0: index -1 of 4");
  // A gate that is off by one.
  EXPECT_EQ(verdict(i * c(6) + j, 20, less(i * c(6) + j, c(21))).proof, Proof::Refuted);
}

TEST(Bounds, MachineIntegersThatMayWrapAreNotTrusted) {
  Scope scope;
  Node t = special("g0", 0, dtypes::Int32);  // any int32 >= 0
  Node x = load(param(f32, 1, 100), t * int_const(dtypes::Int32, 4),
                less(t * int_const(dtypes::Int32, 4), int_const(dtypes::Int32, 100)));
  Node kernel = sink(std::vector<Node>{store(param(f32, 0, 1), int_const(dtypes::Int32, 0), x)});
  EXPECT_EQ(prove_bounds(kernel).accesses[0].proof, Proof::Unproved);  // 4 * 2^29 is negative in 32 bits
}

TEST(Guard, UnprovedAccessesGetAGateThatProvesThem) {
  Scope scope;
  Node i = global(8, 0);
  Node at = cast(load(param(dtypes::Int32, 2, 8), i), dtypes::Index);
  Node x = load(param(f32, 1, 50), at), y = load(param(f32, 3, 50), at + c(1), less(i, c(5)));
  Node kernel = sink(std::vector<Node>{end(store(param(f32, 0, 9), at, x + y), {&i, 1})});
  BoundsReport before = prove_bounds(kernel);
  EXPECT_EQ(before.count(Proof::Unproved), 3u);
  Node guarded = guard_unproved(kernel, before);
  EXPECT_TRUE(prove_bounds(guarded).all_proved()) << print_graph(guarded);
  EXPECT_TRUE(verify_kernel(guarded).empty());

  std::vector<double> places = {0, 8, 9, -1, 49, 50, 1 << 30, 3};
  using reference::Array;
  Array out(f32, 9), table(f32, 50), index = Array::of(dtypes::Int32, places), other(f32, 50);
  for (int k = 0; k < 50; ++k) table.set(k, {0, 100.0 + k});
  std::vector<reference::View> views = {out.view(), table.view(), index.view(), other.view()};
  reference::EvalReport report = reference::kernel_eval(guarded, views);
  EXPECT_TRUE(report.ok()) << report.faults[0];
  EXPECT_EQ(out.number(8), 108);
  EXPECT_EQ(out.number(3), 103);
  EXPECT_EQ(out.number(1), 0);
  EXPECT_FALSE(reference::kernel_eval(kernel, views).ok());
}

TEST(Guard, AVectorAccessKeepsItsScalarGate) {
  Scope scope;
  Node i = global(8, 0);
  Node at = splat(cast(load(param(dtypes::Int32, 2, 8), i), dtypes::Index), 4) + iota(dtypes::Index, 4);
  Node x = hreduce(Op::Add, load(param(f32, 1, 50), at, less(i, c(5))));
  Node kernel = sink(std::vector<Node>{end(store(param(f32, 0, 8), i, x), {&i, 1})});
  Node guarded = guard_unproved(kernel, prove_bounds(kernel));
  EXPECT_TRUE(verify_kernel(guarded).empty());
  EXPECT_TRUE(!has_solver() || prove_bounds(guarded, {.effort = 10000000}).all_proved());
}

TEST(Guard, ProvedKernelsStayAsTheyAre) {
  Scope scope;
  Node i = global(8, 0);
  Node kernel = sink(std::vector<Node>{end(store(param(f32, 0, 8), i, load(param(f32, 1, 8), i)), {&i, 1})});
  EXPECT_EQ(guard_unproved(kernel, prove_bounds(kernel)), kernel);
}

// What a padded convolution with a stride reads: the index is a sum of single terms, the gate speaks of two
// sums in it. Intervals put them together again, so that no solver is asked.
TEST(Bounds, SumsThatTheGateSpeaksOfAreProvedByIntervals) {
  Scope scope;
  Node i = global(28, 0), j = global(28, 1), k = global(3, 2), l = global(3, 3);
  Node row = i * c(2) + k + c(-1), column = j * c(2) + l + c(-1);
  auto inside = [](Node at) { return logical_and(logical_not(less(at, c(0))), less(at, c(56))); };
  Node index = i * c(112) + k * c(56) + j * c(2) + l + c(-57);
  EXPECT_EQ(verdict(index, 56 * 56, logical_and(inside(row), inside(column))).proof, Proof::Interval);
  EXPECT_NE(verdict(index, 56 * 56, inside(row)).proof, Proof::Interval);
  EXPECT_NE(verdict(index, 56 * 56 - 1, logical_and(inside(row), inside(column))).proof, Proof::Interval);
}

// Random index expressions with random gates: a verdict must agree with trying every value.
TEST(Bounds, VerdictsAgreeWithTryingAllValues) {
  std::uint64_t seed = 97;
  std::mt19937_64 random(seed);
  auto pick = [&](std::int64_t lo, std::int64_t hi) {
    return std::uniform_int_distribution<std::int64_t>(lo, hi)(random);
  };
  int proved = 0, refuted = 0;
  for (int round = 0; round < 150; ++round) {
    Scope scope;
    std::int64_t n0 = pick(1, 6), n1 = pick(1, 6), size = pick(1, 20);
    Node r[] = {global(n0, 0), global(n1, 1)};
    std::vector<Node> pool = {r[0], r[1]};
    for (int k = 0; k < 4; ++k) {
      Node x = pool[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(pool.size()) - 1))];
      Node y = pool[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(pool.size()) - 1))];
      switch (pick(0, 4)) {
        case 0: pool.push_back(x + y); break;
        case 1: pool.push_back(x * c(pick(-2, 4))); break;
        case 2: pool.push_back(floor_div(x, c(pick(1, 4)))); break;
        case 3: pool.push_back(floor_mod(x, c(pick(1, 4)))); break;
        default: pool.push_back(x + c(pick(-3, 3))); break;
      }
    }
    Node index = pool.back();
    Node g = pool[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(pool.size()) - 1))];
    Node gate = logical_and(less(g, c(pick(0, 12))), logical_not(less(index, c(pick(-4, 1)))));
    bool leaves = false;
    for (std::int64_t a = 0; a < n0; ++a)
      for (std::int64_t b = 0; b < n1; ++b) {
        NodeMap<Node> at;
        at[r[0]] = c(a);
        at[r[1]] = c(b);
        std::int64_t v = substitute(index, at).const_int();
        leaves = leaves || (substitute(gate, at).const_int() != 0 && (v < 0 || v >= size));
      }
    AccessProof p = verdict(index, size, gate);
    if (p.proof == Proof::Interval || p.proof == Proof::Solver) {
      EXPECT_FALSE(leaves) << "seed " << seed << " round " << round << ": " << index_text(index) << " under "
                           << index_text(gate);
      ++proved;
    } else if (p.proof == Proof::Refuted) {
      EXPECT_TRUE(leaves) << "seed " << seed << " round " << round << ": " << p.counterexample;
      ++refuted;
    } else if (has_solver()) {
      ADD_FAILURE() << "unproved: " << index_text(index) << " under " << index_text(gate);
    }
  }
  EXPECT_GT(proved, 30);
  EXPECT_GT(refuted, has_solver() ? 10 : -1);
}

}  // namespace
}  // namespace lathe::verify
