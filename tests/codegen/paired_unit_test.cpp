// Attention's two products on one matrix unit, as programs for a GPU that REF runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codegen/codegen.h"
#include "codegen/kernels.h"
#include "codegen/program_faults.h"
#include "ir/group_ops.h"
#include "ir/walk.h"
#include "reference/reference.h"

namespace lathe::test {
namespace {

Program lowered(Node kernel) {
  const Target target = named_target("sm_90a");
  return lower_kernel(kernel, choose_options(kernel, target), target, "attention");
}

// The largest difference between what a program stores and what the kernel as scheduled does.
double difference(Node kernel, const Program& program) {
  auto made_up = [&] {
    std::vector<reference::Array> arrays;
    for (const ProgramParam& p : program.params) {
      arrays.emplace_back(p.dtype, p.size);
      for (std::int64_t i = 0; i < p.size; ++i)
        arrays.back().set(i, {0, static_cast<double>((i * 37 + i / 64 * 5) % 13) * 0.25 - 1.5});
    }
    return arrays;
  };
  auto views_of = [](std::vector<reference::Array>& arrays) {
    std::vector<reference::View> views;
    for (reference::Array& array : arrays) views.push_back(array.view());
    return views;
  };
  std::vector<reference::Array> want = made_up(), got = made_up();
  std::vector<reference::View> want_views = views_of(want), got_views = views_of(got);
  const reference::EvalReport as_scheduled = reference::kernel_eval(kernel, want_views);
  EXPECT_TRUE(as_scheduled.ok());
  const reference::EvalReport report = reference::program_eval(program, got_views);
  if (!report.ok()) return 1e30;
  double most = 0;
  for (std::int64_t i = 0; i < want[0].size(); ++i) {
    if (as_scheduled.sampled && !as_scheduled.written[0][static_cast<std::size_t>(i)]) continue;
    most = std::max(most, std::abs(want[0].number(i) - got[0].number(i)));
  }
  return most;
}

TEST(PairedUnit, KeepsTheWeightsInRegisters) {
  Scope scope;
  const Program program = lowered(unit_attention(1, 128, 3, 64, false));
  EXPECT_EQ(faults_of(program), "");
  int held = 0;
  for (const NodeRef& n : program.code) held += n->is(Op::PanelDot) && holds_x(n);
  EXPECT_EQ(held, 2) << "128 keys are two steps of 64";
  EXPECT_EQ(count(program, Op::PanelDot), 3);
  EXPECT_EQ(count(program, Op::Exchange), 2 * 2 * 2) << "a maximum and a sum of two rows, among four threads";
  EXPECT_EQ(count(program, Op::ProxyFence), 2) << "for the rows, which threads copy, and for the barriers";
}

TEST(PairedUnit, GivesWhatTheKernelDoes) {
  Scope scope;
  for (const bool causal : {false, true}) {
    Node kernel = unit_attention(1, 64, 2, 64, causal);
    EXPECT_LT(difference(kernel, lowered(kernel)), 0.02) << causal;
  }
}

// Rows of tiles that are masked for all rows of a group are skipped by all of it.
TEST(PairedUnit, EndsALoopBeforeTilesThatAreMasked) {
  Scope scope;
  auto longest = [](const Program& program) {
    std::int64_t most = 0;
    bool constant = true;
    for (const NodeRef& n : program.code)
      if (n->is(Op::Range) && n->arg(0).hi() > most) most = n->arg(0).hi(), constant = n->arg(0).is_const();
    return constant;
  };
  EXPECT_TRUE(longest(lowered(unit_attention(1, 1024, 8, 64, false))));
  EXPECT_FALSE(longest(lowered(unit_attention(1, 1024, 8, 64, true))));
}

TEST(PairedUnit, ReferenceFindsEachPlantedFault) {
  Scope scope;
  Node kernel = unit_attention(1, 64, 4, 64, false);
  const Program program = lowered(kernel);
  const auto nothing = [](Node) { return Node(); };
  ASSERT_EQ(faults_of(program), "");
  ASSERT_LT(difference(kernel, program), 0.02);
  const auto finds = [&](const char* what, Op op, const std::function<Node(Node)>& to) {
    const std::string found = faults_of(changed(program, op, to));
    EXPECT_NE(found.find(what), std::string::npos) << found;
  };
  finds("read before arrival", Op::AwaitArrivals, nothing);
  finds("missing proxy fence", Op::ProxyFence, nothing);
  finds("nothing arrives", Op::ArriveBytes,
        [](Node n) { return arrive_bytes(n.arg(0), n.arg(1), n.int_attr() + 128); });
  // Sums of other threads than those of the row.
  NodeMap<Node> others;
  for (const NodeRef& n : program.code)
    if (n->is(Op::Exchange) && n->arg(0).is(Op::Add) && n->int_attr() == 2)
      others.try_emplace(n, exchange(n->arg(0), 8));
  Program wrong = program;
  for (NodeRef& n : wrong.code) n = substitute(n, others);
  EXPECT_GT(difference(kernel, wrong), 0.02);
}

TEST(PairedUnit, RefusesWhatItCannotTake) {
  Scope scope;
  const Target target = named_target("sm_90a");
  auto reason = [&](Node kernel, const char* opts) -> std::string {
    const OrRefusal<Node> made = try_options(kernel, parse_opts(opts), target);
    return made ? "" : made.refusal().error().what();
  };
  Node kernel = unit_attention(1, 128, 2, 64, false);
  EXPECT_NE(reason(kernel, "TC(4, -1, 1, 2)").find("for the instruction alone"), std::string::npos);
  EXPECT_NE(reason(kernel, "TC(2, -1, 1, 1)").find("second factor of the second product"), std::string::npos);
  EXPECT_NE(reason(kernel, "TC(4, 9, 1, 1)").find("there is no row 9"), std::string::npos);
  EXPECT_NE(reason(kernel, "TC(4, -1, 1, 1)").find("staged in swizzled rows"), std::string::npos);
  EXPECT_NE(reason(attention(64, 2, 64, 64), "TC(1, -1, 1, 1)").find("no two products of small numbers"),
            std::string::npos);
}

}  // namespace
}  // namespace lathe::test
