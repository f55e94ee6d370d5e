// Panels that a group fills ahead of time and units that read them, as programs for a GPU that REF runs.
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
#include "ir/walk.h"

namespace lathe::test {
namespace {

// The third number of TC is the row: those of a unit that reads matrices and of two that read panels.
constexpr const char* kMatrices =
    "TC(1, 0, 1, 1) UPCAST(0, 2) LOCAL(0, 2) UPCAST(0, 4) LOCAL(0, 2) TILE(4, 4) STAGE(4, 4, 2) STAGE(4, 5, "
    "2) ";
constexpr const char* kPanels64 = "TC(1, 4, 1, 1) STAGE(3, 4, 2) STAGE(3, 5, 2) ";

std::string fault_in(Node kernel, const std::string& opts) {
  return compare_with_reference(kernel, parse_opts(opts), named_target("sm_90a"), 7);
}

TEST(GroupPanels, MatricesAreReadFromSwizzledPanelsInEveryOrder) {
  Scope scope;
  const char* more[] = {"", "PIPELINE(4, 2)", "PIPELINE(4, 3)", "PIPELINE(4, 2)"};
  for (int order = 0; order < 4; ++order) {
    Node kernel = turned_matmul(64, 64, 128, order % 2 == 0, order / 2 == 0);
    const std::string opts = std::string(kMatrices) + more[order];
    EXPECT_EQ(fault_in(kernel, opts), "") << order;
    const Program program = lower_kernel(kernel, parse_opts(opts), named_target("sm_90a"), "product");
    EXPECT_GT(count(program, Op::Matrices), 0);
    EXPECT_EQ(count(program, Op::CopyAsync) > 0, order > 0);
  }
}

TEST(GroupPanels, AUnitReadsSwizzledPanelsItselfInEveryOrder) {
  Scope scope;
  const char* more[] = {"", "PIPELINE(3, 2)", "PIPELINE(3, 4)", "PIPELINE(3, 5)"};
  for (int order = 0; order < 4; ++order) {
    Node kernel = turned_matmul(64, 64, 192, order % 2 == 0, order / 2 == 0);
    const std::string opts = std::string(kPanels64) + more[order];
    EXPECT_EQ(fault_in(kernel, opts), "") << order;
    const Program program = lower_kernel(kernel, parse_opts(opts), named_target("sm_90a"), "product");
    EXPECT_GT(count(program, Op::PanelDot), 0);
    // With five slots the products of two steps overlap, and only the last one is waited for whole.
    EXPECT_EQ(count(program, Op::WaitProducts), order == 3 ? 2 : 1);
    EXPECT_EQ(count(program, Op::CopyAsync) > 0, order > 0);
  }
}

// One step of a panel is the whole sum: there is no loop to fill panels in, and none that adds.
TEST(GroupPanels, AProductOfOneStepNeedsNoLoop) {
  Scope scope;
  EXPECT_EQ(
      fault_in(turned_matmul(64, 64, 64, true, false), "TC(1, 4, 1, 1) STAGE(-1, 4, 2) STAGE(-1, 5, 2)"), "");
  EXPECT_EQ(fault_in(turned_matmul(128, 64, 64, true, true), "TC(1, 4, 1, 1) STAGE(0, 4, 2) STAGE(0, 5, 2)"),
            "");
}

// Rows, columns and steps that are no multiples of a fragment are zeros in the panels.
TEST(GroupPanels, WhatLiesBeyondTheEndOfARangeIsZeroInPanels) {
  Scope scope;
  EXPECT_EQ(fault_in(turned_matmul(72, 80, 136, true, false),
                     "TC(1, 4, 1, 1) STAGE(5, 4, 2) STAGE(5, 5, 2) PIPELINE(5, 3)"),
            "");
  EXPECT_EQ(fault_in(turned_matmul(72, 80, 136, false, true),
                     "TC(1, 4, 1, 1) STAGE(5, 4, 2) STAGE(5, 5, 2) PIPELINE(5, 2)"),
            "");
}

// Neither rows nor steps are whole pieces, and the sum is one step of the panels.
TEST(GroupPanels, ASmallUnevenProductOfOneStepIsRight) {
  Scope scope;
  EXPECT_EQ(fault_in(turned_matmul(40, 33, 17, false, false),
                     "TC(1, 0, 1, 1) LOCAL(0, 4) UPCAST(0, 4) LOCAL(0, 2) STAGE(-1, 4, 2) STAGE(-1, 5, 2) "
                     "UNROLL(0, 2)"),
            "");
}

// Pixels of all images are the columns of one matrix, channels and places of the window its steps.
TEST(GroupPanels, AConvolutionIsAProductOfPanelsOverJoinedRanges) {
  Scope scope;
  const std::string forward = "JOIN(0, 2) JOIN(0, 2) JOIN(3, 4) JOIN(3, 2) ";
  // 72 pixels, of which 128 are taken, every other one of the images.
  EXPECT_EQ(fault_in(channel_convolution(2, 64, 64, 6, 2, 2),
                     forward + "TC(0, 4, 1, 1) STAGE(4, 4, 2) STAGE(4, 5, 2) PIPELINE(4, 3)"),
            "");
  // Steps are pixels: each of them has its channels as neighbours.
  EXPECT_EQ(fault_in(channel_weight_gradient(2, 64, 64, 8, 1),
                     "JOIN(4, 5) JOIN(4, 5) TC(1, 4, 1, 1) STAGE(5, 4, 2) STAGE(5, 5, 2) PIPELINE(5, 2)"),
            "");
  const Program program =
      lower_kernel(channel_convolution(2, 64, 64, 8, 3),
                   parse_opts(forward + "TC(0, 4, 1, 1) STAGE(4, 4, 2) STAGE(4, 5, 2) PIPELINE(4, 3)"),
                   named_target("sm_90a"), "convolution");
  EXPECT_GT(count(program, Op::PanelDot), 0);
  EXPECT_GT(count(program, Op::CopyAsync), 0);
}

TEST(GroupPanels, ReferenceFindsAMissingWaitBarrierOrFence) {
  Scope scope;
  const auto nothing = [](Node) { return Node(); };
  const auto one_more = [](Node n) { return wait_copies(n.ints()[0] + 1, n.ints()[1]); };
  const auto lower = [](const std::string& opts) {
    return lower_kernel(turned_matmul(64, 64, 256, true, false), parse_opts(opts), named_target("sm_90a"),
                        "product");
  };
  for (const Program& program :
       {lower(std::string(kMatrices) + "PIPELINE(4, 3)"), lower(std::string(kPanels64) + "PIPELINE(3, 3)")}) {
    EXPECT_EQ(faults_of(program), "");
    EXPECT_NE(faults_of(changed(program, Op::WaitCopies, nothing)).find("read before arrival"),
              std::string::npos);
    EXPECT_NE(faults_of(changed(program, Op::WaitCopies, one_more)).find("read before arrival"),
              std::string::npos);
    EXPECT_NE(faults_of(changed(program, Op::CommitCopies, nothing)).find("read before arrival"),
              std::string::npos);
    EXPECT_NE(faults_of(changed(program, Op::Barrier, nothing)).find("race"), std::string::npos);
    // A copy ahead of its time writes where others still read.
    const auto slot = [](Node n) {
      SmallVector<Node, 8> args(n.args().begin(), n.args().end());
      args[1] = int_const(args[1].dtype(), 0);
      return n.with_args(args);
    };
    EXPECT_NE(faults_of(changed(program, Op::CopyAsync, slot)), "");
  }
  // Products that are still under way read what the next copies write.
  const auto later = [](Node n) { return wait_products(n.arg(0), n.int_attr() + 1); };
  const Program overlapping =
      lower_kernel(turned_matmul(64, 64, 448, true, false),
                   parse_opts(std::string(kPanels64) + "PIPELINE(3, 5)"), named_target("sm_90a"), "product");
  EXPECT_EQ(faults_of(overlapping), "");
  EXPECT_NE(faults_of(renamed(overlapping, Op::WaitProducts, later)), "");
  const Program products = lower(std::string(kPanels64) + "PIPELINE(3, 2)");
  EXPECT_NE(faults_of(changed(products, Op::ProxyFence, nothing)).find("missing proxy fence"),
            std::string::npos);
}

TEST(GroupPanels, TheVerifierFindsAProductThatNothingWaitedFor) {
  Scope scope;
  const Program program = lower_kernel(turned_matmul(64, 64, 128, true, true), parse_opts(kPanels64),
                                       named_target("sm_90a"), "product");
  EXPECT_TRUE(verify_program(program).empty());
  NodeMap<Node> without;
  for (const NodeRef& n : program.code)
    if (n->is(Op::WaitProducts)) without.try_emplace(n, n->arg(0));
  Program hasty = program;
  hasty.code.clear();
  for (const NodeRef& n : program.code)
    if (!n->is(Op::WaitProducts)) hasty.code.emplace_back(substitute(n, without));
  ASSERT_FALSE(verify_program(hasty).empty());
  EXPECT_NE(verify_program(hasty)[0].text.find("nothing waited for"), std::string::npos);
}

TEST(GroupPanels, OptionsSayWhatTheyNeed) {
  Scope scope;
  const Target target = named_target("sm_90a");
  const auto refusal = [&](Node kernel, const std::string& opts) -> std::string {
    try {
      apply_options(kernel, parse_opts(opts), target);
    } catch (const KernelOptError& error) {
      return error.what();
    }
    return "";
  };
  Node kernel = turned_matmul(64, 64, 128, true, false);
  EXPECT_NE(refusal(kernel, "PIPELINE(2, 2)").find("no panel is filled at this loop"), std::string::npos);
  EXPECT_NE(refusal(kernel, "STAGE(2, 0, 2)").find("swizzled rows are for a matrix unit"), std::string::npos);
  EXPECT_NE(refusal(kernel, "TC(1, 4, 1, 1) STAGE(3, 4, 1) STAGE(3, 5, 1)").find("staged in swizzled rows"),
            std::string::npos);
  EXPECT_NE(refusal(kernel, std::string(kPanels64) + "PIPELINE(3, 16)").find("exceed"), std::string::npos);
}

}  // namespace
}  // namespace lathe::test
