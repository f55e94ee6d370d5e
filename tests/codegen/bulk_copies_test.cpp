// Panels that come by bulk copies, as programs for a GPU that REF runs.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/small_vector.h"
#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "codegen/program_faults.h"
#include "ir/group_ops.h"
#include "ir/verify.h"

namespace lathe::test {
namespace {

constexpr const char* kPanels = "TC(1, 4, 1, 1) STAGE(3, 4, 2) STAGE(3, 5, 2) ";
constexpr const char* kMatrices =
    "TC(1, 0, 1, 1) UPCAST(0, 2) LOCAL(0, 2) UPCAST(0, 4) LOCAL(0, 2) TILE(4, 4) STAGE(4, 4, 2) STAGE(4, 5, "
    "2) ";

Program lowered(Node kernel, const std::string& opts) {
  return lower_kernel(kernel, parse_opts(opts), named_target("sm_90a"), "product");
}
std::string fault_in(Node kernel, const std::string& opts) {
  return compare_with_reference(kernel, parse_opts(opts), named_target("sm_90a"), 7);
}

TEST(BulkCopies, FillPanelsInEveryOrderOfTheFactors) {
  Scope scope;
  for (int order = 0; order < 4; ++order) {
    Node kernel = turned_matmul(64, 64, 256, order % 2 == 0, order / 2 == 0);
    const std::string panels = fmt::format("{}PIPELINE(3, {}, 1)", kPanels, 2 + order % 3),
                      matrices = fmt::format("{}PIPELINE(4, {}, 1)", kMatrices, 2 + order % 3);
    for (const std::string& opts : {panels, matrices}) {
      const Program program = lowered(kernel, opts);
      EXPECT_EQ(faults_of(program), "") << order << " " << opts;
      EXPECT_GT(count(program, Op::BulkCopy), 0) << order << " " << opts;
      EXPECT_EQ(count(program, Op::CopyAsync), 0);
      EXPECT_EQ(count(program, Op::ProxyFence), 1);  // for the barriers; threads write no panel
    }
    EXPECT_EQ(order % 3 == 1 ? fault_in(kernel, panels) : "", "") << order;
  }
}

// Several slabs of outputs, several fragments of rows and several groups.
TEST(BulkCopies, TakeAsManyBoxesAsAPanelHas) {
  Scope scope;
  Node kernel = turned_matmul(256, 128, 128, true, false);
  const std::string opts = "TC(1, 3, 1, 1) LOCAL(0, 2) STAGE(5, 4, 2) STAGE(5, 5, 2) PIPELINE(5, 3, 1)";
  const Program program = lowered(kernel, opts);
  EXPECT_EQ(count(program, Op::BulkCopy), 2 * 3);  // before the loop and in it: rows, two slabs of columns
  EXPECT_EQ(faults_of(program), "");
}

// Zeros come by themselves where a range ends inside of a fragment.
TEST(BulkCopies, LeaveZerosBeyondTheEndOfARange) {
  Scope scope;
  for (int order = 0; order < 4; ++order) {
    Node kernel = turned_matmul(72, 80, 136, order % 2 == 0, order / 2 == 0);
    const std::string opts = "TC(1, 4, 1, 1) STAGE(5, 4, 2) STAGE(5, 5, 2) PIPELINE(5, 3, 1)";
    const Program program = lowered(kernel, opts);
    EXPECT_GT(count(program, Op::BulkCopy), 0) << order;
    EXPECT_EQ(faults_of(program), "") << order;
    EXPECT_EQ(order % 3 == 0 ? fault_in(kernel, opts) : "", "") << order;
  }
}

// Rows that are no multiple of 16 bytes apart cannot be boxes: their copies stay what they were.
TEST(BulkCopies, AreNotUsedForWhatIsNoBox) {
  Scope scope;
  Node kernel = turned_matmul(64, 64, 132, true, false);
  const std::string opts = "TC(1, 4, 1, 1) STAGE(3, 4, 2) STAGE(3, 5, 2) PIPELINE(3, 3, 1)";
  EXPECT_EQ(fault_in(kernel, opts), "");
  EXPECT_EQ(count(lowered(kernel, opts), Op::BulkCopy), 0);
}

TEST(BulkCopies, ReferenceFindsEachPlantedFault) {
  Scope scope;
  const auto nothing = [](Node) { return Node(); };
  for (const std::string& opts :
       {fmt::format("{}PIPELINE(3, 3, 1)", kPanels), fmt::format("{}PIPELINE(4, 3, 1)", kMatrices)}) {
    const Program program = lowered(turned_matmul(64, 64, 512, true, false), opts);
    const auto finds = [&](const char* what, Op op, const std::function<Node(Node)>& to) {
      const std::string found = faults_of(changed(program, op, to));
      EXPECT_NE(found.find(what), std::string::npos) << opts << "\n" << found;
    };
    EXPECT_EQ(faults_of(program), "");
    // No wait.
    finds("read before arrival", Op::AwaitArrivals, nothing);
    // Another phase than this one: the first passes at once.
    const auto other = [](Node n) {
      Node one = int_const(n.arg(2).dtype(), 1);
      return await_arrivals(n.arg(0), n.arg(1), apply(Op::Sub, one, n.arg(2)));
    };
    Program parity = program;
    std::vector<NodeRef> code;
    for (const NodeRef& n : parity.code) {
      if (n->is(Op::AwaitArrivals)) code.emplace_back(other(n).arg(2));
      code.emplace_back(n->is(Op::AwaitArrivals) ? other(n) : Node(n));
    }
    parity.code = std::move(code);
    EXPECT_NE(faults_of(parity).find("read before arrival"), std::string::npos) << faults_of(parity);
    // More bytes than come, and fewer.
    const auto bytes = [](std::int64_t more) {
      return [more](Node n) { return arrive_bytes(n.arg(0), n.arg(1), n.int_attr() + more); };
    };
    finds("nothing arrives", Op::ArriveBytes, bytes(128));
    finds("nothing arrives", Op::ArriveBytes, nothing);
    finds("read before arrival", Op::ArriveBytes, bytes(-8192));
    // Copies do not know of the barriers, nor do other threads.
    finds("missing proxy fence", Op::ProxyFence, nothing);
    finds("barrier that has not begun", Op::BeginArrivals, nothing);
    // The slot of a step is filled before all have done with it.
    bool first = true;
    finds("race", Op::Barrier, [&](Node n) { return std::exchange(first, false) ? n : Node(); });
    const auto early = [](Node n) {
      SmallVector<Node, 8> args(n.args().begin(), n.args().end());
      args[1] = int_const(args[1].dtype(), 0);
      return n.with_args(args);
    };
    EXPECT_NE(faults_of(changed(program, Op::BulkCopy, early)), "");
  }
  // Products that are still under way read what the next copies write.
  const auto later = [](Node n) { return wait_products(n.arg(0), n.int_attr() + 1); };
  const Program overlapping =
      lowered(turned_matmul(64, 64, 448, true, false), fmt::format("{}PIPELINE(3, 3, 1)", kPanels));
  EXPECT_NE(faults_of(renamed(overlapping, Op::WaitProducts, later)), "");
}

TEST(BulkCopies, OptionsSayWhatTheyNeed) {
  Scope scope;
  const auto refusal = [](const char* target, const std::string& opts) -> std::string {
    try {
      apply_options(turned_matmul(64, 64, 128, true, false), parse_opts(opts), named_target(target));
    } catch (const KernelOptError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("sm_80", std::string(kMatrices) + "PIPELINE(4, 2, 1)").find("sm_80 has no bulk copies"),
            std::string::npos);
  EXPECT_NE(refusal("sm_90a", std::string(kPanels) + "PIPELINE(3, 2, 3)").find("by bulk copies (1)"),
            std::string::npos);
}

}  // namespace
}  // namespace lathe::test
