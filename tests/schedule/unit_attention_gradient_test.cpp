// Gradients of attention on a matrix unit whose threads share fragments, without stored weights: scheduled,
// given the options of the heuristic, and run as programs by REF beside the tensor graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "codegen/codegen.h"
#include "evaluate.h"
#include "ir/walk.h"
#include "reference/reference.h"
#include "reference/tensor_eval.h"
#include "schedule/schedule.h"
#include "schedule/small_attention.h"
#include "target/target.h"

namespace lathe {
namespace {

using namespace test;
using reference::Array;
using reference::BufferContents;

ScheduleOptions on_groups() {
  ScheduleOptions options;
  options.rows = Rows::Group;
  options.unit_folds = true;
  options.rebuilt_bytes = 0;
  return options;
}

int count_in(const Program& program, Op op) {
  int n = 0;
  for (const NodeRef& node : program.code) n += node->is(op);
  return n;
}

struct Made {
  Schedule schedule;
  std::vector<Program> programs;
  std::vector<std::string> options;
  int folds = 0, products = 0;
};

Made made_of(const std::vector<Node>& wanted) {
  const Target target = named_target("sm_90a");
  Made made;
  made.schedule = schedule(wanted, on_groups());
  for (const Step& step : made.schedule.steps) {
    const std::vector<Opt> chosen = choose_options(step.ast, target);
    made.options.push_back(to_string(chosen));
    made.programs.push_back(lower_kernel(step.ast, chosen, target, step.name));
    made.folds += count(step.ast, Op::Fold);
    made.products += count_in(made.programs.back(), Op::PanelDot) > 0;
  }
  return made;
}

void expect_programs_give_the_graph(const SmallAttention& a) {
  const Made made = made_of(a.all);
  EXPECT_EQ(made.folds, 3) << made.schedule.steps.size() << " kernels";
  EXPECT_EQ(made.products, 3);
  BufferContents memory = numbers_of(a);
  for (std::size_t i = 0; i < made.programs.size(); ++i) {
    const Step& step = made.schedule.steps[i];
    std::vector<reference::View> views;
    for (Node b : step.buffers)
      if (!memory.contains(b)) memory[b] = Array(b.dtype(), buffer_size(b));
    for (Node b : step.buffers) views.push_back(memory[b].view());
    const reference::EvalReport report = reference::program_eval(made.programs[i], views);
    ASSERT_TRUE(report.ok()) << made.options[i] << "\n"
                             << (report.faults.empty() ? "incomplete" : report.faults[0]);
  }
  for (std::size_t i = 0; i < a.all.size(); ++i) {
    SCOPED_TRACE(i);
    Node result = made.schedule.results[i];
    const auto got = reference::tensor_eval(std::span(&result, 1), memory);
    const auto want = reference::tensor_eval(std::span(&a.all[i], 1), numbers_of(a));
    for (std::int64_t e = 0; e < want[0].data.size(); ++e) {
      const double x = got[0].data.number(e), y = want[0].data.number(e);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      ASSERT_NEAR(x, y, 0.02 * std::max(1.0, std::abs(y))) << e;
    }
  }
}

TEST(UnitAttentionGradient, IsThatOfTheGraph) {
  Scope scope;
  expect_programs_give_the_graph(small_attention({1, 128, 128, 64, 64}, AttentionMask::None));
}

TEST(UnitAttentionGradient, OfPositionsThatAreMaskedIsThatOfTheGraph) {
  Scope scope;
  for (const AttentionMask mask : {AttentionMask::Causal, AttentionMask::Window})
    expect_programs_give_the_graph(small_attention({1, 192, 256, 64, 64}, mask));
}

TEST(UnitAttentionGradient, TakesOddLengthsAndWidths) {
  Scope scope;
  for (const AttentionMask mask : {AttentionMask::None, AttentionMask::Causal})
    expect_programs_give_the_graph(small_attention({1, 70, 200, 48, 72}, mask));
}

TEST(UnitAttentionGradient, TakesHeadsThatShareKeysWithAMask) {
  Scope scope;
  expect_programs_give_the_graph(small_attention({2, 128, 128, 64, 64, 2}, AttentionMask::Given));
}

TEST(UnitAttentionGradient, TakesHalfAndWideHeads) {
  Scope scope;
  expect_programs_give_the_graph(
      small_attention({1, 128, 128, 128, 128}, AttentionMask::Causal, dtypes::Float16));
}

// What the kernels write, in elements.
std::int64_t stored(const Schedule& s) {
  NodeMap<char> written;
  for (const Step& step : s.steps)
    for (Node n : toposort(step.ast))
      if (n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Param))
        written[step.buffers[static_cast<std::size_t>(param_slot(base_memory(n.arg(0))))]] = 1;
  std::int64_t elements = 0;
  for (const auto& [buffer, one] : written) elements += buffer_size(buffer);
  return elements;
}

TEST(UnitAttentionGradient, IsThreeKernelsAfterTheForwardOneAndStoresNoWeights) {
  for (const AttentionMask mask : {AttentionMask::None, AttentionMask::Causal, AttentionMask::Given})
    for (const std::int64_t width : {64, 80, 96, 128})
      for (const std::int64_t rows : {1024, 1000, 4096}) {
        Scope scope;
        ScheduleOptions options = on_groups();
        options.rebuilt_bytes = ScheduleOptions().rebuilt_bytes;
        const Schedule s = schedule(small_attention({96, rows, rows, width, width}, mask).all, options);
        EXPECT_EQ(s.steps.size(), 4u) << width << " " << rows;
        // The output, before and after it was rounded, three gradients, and the largest, the total and the
        // products of each row.
        EXPECT_EQ(stored(s), 96 * rows * (5 * width + 3)) << width << " " << rows;
      }
}

// Two sums of so many outputs leave a thread no registers: keys and values have a kernel each.
TEST(UnitAttentionGradient, OfWideHeadsIsAKernelMore) {
  Scope scope;
  const Made made = made_of(small_attention({16, 1024, 1024, 256, 256}, AttentionMask::Causal).all);
  EXPECT_EQ(made.programs.size(), 5u);
  EXPECT_EQ(made.products, 4);
}

TEST(UnitAttentionGradient, ComesByBulkCopiesWithPanelsThatSeveralProductsRead) {
  Scope scope;
  const Made made = made_of(small_attention({64, 4096, 4096, 128, 128}, AttentionMask::Causal).all);
  ASSERT_EQ(made.programs.size(), 4u);
  for (const std::size_t i : {0u, 2u, 3u}) {
    EXPECT_GT(count_in(made.programs[i], Op::BulkCopy), 0) << made.options[i];
    EXPECT_LE(made.programs[i].shared_bytes, named_target("sm_90a").shared_bytes);
  }
  // Queries and their gradient, 128 rows of either, and three tiles of 64 keys and values, which two products
  // of each kernel read.
  for (const std::size_t i : {2u, 3u})
    EXPECT_LT(made.programs[i].shared_bytes, (2 * 128 + 3 * 2 * 64) * 128 * 2 + 1024) << made.options[i];
}

TEST(UnitAttentionGradient, StoresTheWeightsOfFloats) {
  Scope scope;
  const Made made = made_of(small_attention({1, 128, 128, 64, 64}, AttentionMask::None, dtypes::Float32).all);
  EXPECT_EQ(made.folds, 0);
}

}  // namespace
}  // namespace lathe
