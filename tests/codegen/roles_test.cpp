// Warps of a group with roles: four that start copies, the others multiply. As programs for a GPU that REF
// runs.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/small_vector.h"
#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "codegen/program_faults.h"
#include "ir/build.h"
#include "ir/group_ops.h"
#include "ir/verify.h"

namespace lathe::test {
namespace {

constexpr const char* kOneGroup = "TC(1, 4, 1, 1) STAGE(3, 4, 2) STAGE(3, 5, 2) PIPELINE(3, 3, 2)";
constexpr const char* kTwoGroups =
    "TC(1, 4, 1, 1) LOCAL(0, 2) STAGE(4, 4, 2) STAGE(4, 5, 2) PIPELINE(4, 3, 2)";

Program lowered(Node kernel, const std::string& opts) {
  return lower_kernel(kernel, parse_opts(opts), named_target("sm_90a"), "product");
}
std::string fault_in(Node kernel, const std::string& opts) {
  return compare_with_reference(kernel, parse_opts(opts), named_target("sm_90a"), 7);
}
int roles_in(const Program& program) {
  int n = 0;
  for (const NodeRef& node : program.code)
    n += node->is(Op::If) && role_of(node->arg(0), program).has_value();
  return n;
}

TEST(Roles, FillPanelsInEveryOrderOfTheFactors) {
  Scope scope;
  for (int order = 0; order < 4; ++order) {
    Node kernel = turned_matmul(64, 64, 512, order % 2 == 0, order / 2 == 0);
    const Program program = lowered(kernel, kOneGroup);
    EXPECT_EQ(roles_in(program), 2) << order;
    EXPECT_EQ(count(program, Op::Barrier), 1);  // after the barriers of arrivals were made
    EXPECT_EQ(faults_of(program), "") << order;
    EXPECT_EQ(order % 3 == 0 ? fault_in(kernel, kOneGroup) : "", "") << order;
  }
}

// Two groups of four warps, ranges that end inside of a fragment, sums that are added up outside of the unit.
TEST(Roles, SharePanelsAmongSeveralWarps) {
  Scope scope;
  EXPECT_EQ(fault_in(turned_matmul(128, 64, 320, true, false), kTwoGroups), "");
  EXPECT_EQ(fault_in(turned_matmul(136, 72, 328, true, true),
                     "TC(1, 4, 1, 1) LOCAL(0, 2) STAGE(6, 4, 2) STAGE(6, 5, 2) PIPELINE(6, 2, 2)"),
            "");
  Node bytes = unit_matmul(128, 64, 512, dtypes::Fp8e4m3, dtypes::Fp8e4m3, true, true);
  const char* opts = "TC(1, 4, 1, 1) LOCAL(0, 2) STAGE(4, 8, 2) STAGE(4, 9, 2) PIPELINE(4, 3, 2)";
  EXPECT_EQ(roles_in(lowered(bytes, opts)), 2);
  EXPECT_EQ(fault_in(bytes, opts), "");
}

TEST(Roles, ReferenceFindsEachPlantedFault) {
  Scope scope;
  const auto nothing = [](Node) { return Node(); };
  const auto same_parity = [](Node n) {
    return await_arrivals(n.arg(0), n.arg(1), int_const(n.arg(2).dtype(), 1));
  };
  const auto other_bytes = [](Node n) {
    return n.int_attr() == 0 ? n : arrive_bytes(n.arg(0), n.arg(1), n.int_attr() + 16);
  };
  const auto never_free = [](Node n) { return n.int_attr() == 0 ? Node() : n; };
  const auto free_at_once = [](Node n) {
    return n.int_attr() == 1 ? n : begin_arrivals(n.arg(0), n.arg(1), n.int_attr() - 1);
  };
  for (const char* opts : {kOneGroup, kTwoGroups}) {
    const Program program = lowered(turned_matmul(opts == kOneGroup ? 64 : 128, 64, 640, true, false), opts);
    EXPECT_EQ(faults_of(program), "");
    // Only the waits of one role at a time.
    int which = 0;
    const auto without_wait = [&](int role) {
      which = 0;
      return faults_of(
          changed(program, Op::AwaitArrivals, [&](Node n) { return which++ == role ? Node() : n; }));
    };
    EXPECT_NE(without_wait(0), "");  // write before release
    EXPECT_NE(without_wait(1).find("read before arrival"), std::string::npos);
    EXPECT_NE(faults_of(changed(program, Op::AwaitArrivals, same_parity)), "");
    EXPECT_NE(faults_of(changed(program, Op::ArriveBytes, other_bytes)), "");
    EXPECT_NE(faults_of(changed(program, Op::ArriveBytes, never_free)).find("nothing arrives"),
              std::string::npos);
    EXPECT_NE(faults_of(changed(program, Op::BeginArrivals, free_at_once)), "");
    EXPECT_NE(faults_of(changed(program, Op::ProxyFence, nothing)).find("missing proxy fence"),
              std::string::npos);
    // Slots are free before their products are done.
    EXPECT_NE(faults_of(renamed(program, Op::WaitProducts,
                                [](Node n) { return wait_products(n.arg(0), n.int_attr() + 1); })),
              "");
  }
}

// A product that only some of a role's warps take part in is refused, as is a barrier in a role.
TEST(Roles, TheVerifierKnowsWhoMeets) {
  Scope scope;
  Program program = lowered(turned_matmul(64, 64, 512, true, true), kOneGroup);
  EXPECT_TRUE(verify_program(program).empty());
  std::vector<NodeRef> code;
  for (const NodeRef& n : program.code) {
    code.push_back(n);
    if (n->is(Op::If) && role_of(n->arg(0), program)) code.emplace_back(barrier({}));
  }
  program.code = std::move(code);
  EXPECT_FALSE(verify_program(program).empty());
}

// Three times four warps that multiply leave no registers for others; panels that are no boxes come as
// before.
TEST(Roles, AreLeftOutWhereTheyCannotBe) {
  Scope scope;
  const Program three = lowered(turned_matmul(192, 64, 256, true, true),
                                "TC(1, 4, 1, 1) LOCAL(0, 3) STAGE(4, 4, 2) STAGE(4, 5, 2) PIPELINE(4, 3, 2)");
  EXPECT_EQ(roles_in(three), 0);
  EXPECT_GT(count(three, Op::BulkCopy), 0);
  EXPECT_EQ(roles_in(lowered(turned_matmul(64, 64, 132, true, false), kOneGroup)), 0);
  EXPECT_THROW(lowered(turned_matmul(64, 64, 512, true, true),
                       "TC(1, 4, 1, 1) STAGE(3, 4, 2) STAGE(3, 5, 2) PIPELINE(3, 3, 3)"),
               KernelOptError);
}

}  // namespace
}  // namespace lathe::test
