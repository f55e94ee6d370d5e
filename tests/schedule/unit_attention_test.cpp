// Attention in one kernel of a group of threads: both products on a matrix unit that reads panels, the
// weights between them in registers. Scheduled, given the options of the heuristic, and run as a program by
// REF beside the tensor graph.
#include <gtest/gtest.h>

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
  return options;
}

Program one_program(const Schedule& s, std::string& options) {
  const Target target = named_target("sm_90a");
  const std::vector<Opt> chosen = choose_options(s.steps[0].ast, target);
  options = to_string(chosen);
  return lower_kernel(s.steps[0].ast, chosen, target, "attention");
}

int count_in(const Program& program, Op op) {
  int n = 0;
  for (const NodeRef& node : program.code) n += node->is(op);
  return n;
}

void expect_program_gives_the_graph(const SmallAttention& a) {
  Schedule s = schedule(std::vector<Node>{a.all[0]}, on_groups());
  ASSERT_EQ(s.steps.size(), 1u);
  std::string options;
  const Program program = one_program(s, options);
  SCOPED_TRACE(options);
  EXPECT_GE(count_in(program, Op::PanelDot), 2) << "both products are the unit's";
  BufferContents memory = numbers_of(a);
  std::vector<reference::View> views;
  for (Node b : s.steps[0].buffers)
    if (!memory.contains(b)) memory[b] = Array(b.dtype(), buffer_size(b));
  for (Node b : s.steps[0].buffers) views.push_back(memory[b].view());
  const reference::EvalReport report = reference::program_eval(program, views);
  ASSERT_TRUE(report.ok()) << (report.faults.empty() ? "incomplete" : report.faults[0]);
  Node result = s.results[0];
  auto got = reference::tensor_eval(std::span(&result, 1), memory);
  auto want = reference::tensor_eval(std::span(&a.all[0], 1), numbers_of(a));
  for (std::int64_t i = 0; i < want[0].data.size(); ++i) {
    const double x = got[0].data.number(i), y = want[0].data.number(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ASSERT_NEAR(x, y, 0.02 * std::max(1.0, std::abs(y))) << i;
  }
}

TEST(UnitAttention, GivesWhatTheGraphDoes) {
  Scope scope;
  expect_program_gives_the_graph(small_attention({1, 128, 256, 64, 64}, AttentionMask::None));
}

TEST(UnitAttention, SkipsTilesAndMasksTheDiagonal) {
  Scope scope;
  expect_program_gives_the_graph(small_attention({1, 192, 256, 64, 64}, AttentionMask::Causal));
}

TEST(UnitAttention, TakesOddLengthsAndWidths) {
  Scope scope;
  expect_program_gives_the_graph(small_attention({1, 70, 200, 48, 72}, AttentionMask::None));
}

TEST(UnitAttention, TakesHeadsThatShareKeysWithAMask) {
  Scope scope;
  expect_program_gives_the_graph(small_attention({2, 64, 128, 64, 64, 2}, AttentionMask::Given));
}

TEST(UnitAttention, TakesAWindow) {
  Scope scope;
  expect_program_gives_the_graph(small_attention({1, 128, 256, 32, 64}, AttentionMask::Window));
}

TEST(UnitAttention, IsTakenWithItsPanelsByBulkCopies) {
  Scope scope;
  for (std::int64_t width : {64, 80, 96, 128, 256}) {
    Schedule s = schedule(
        std::vector<Node>{small_attention({16, 4096, 4096, width, width}, AttentionMask::Causal).all[0]},
        on_groups());
    ASSERT_EQ(s.steps.size(), 1u);
    std::string options;
    const Program program = one_program(s, options);
    EXPECT_GE(count_in(program, Op::PanelDot), 2) << width << " " << options;
    EXPECT_EQ(count_in(program, Op::BulkCopy) > 0, width % 64 == 0) << width << " " << options;
    EXPECT_LE(program.shared_bytes, named_target("sm_90a").shared_bytes) << width;
  }
}

TEST(UnitAttention, IsLeftAloneWhereNoUnitTakesIt) {
  Scope scope;
  // Floats of 32 bits have no such unit, nor have a few rows.
  EXPECT_GT(schedule(
                std::vector<Node>{
                    small_attention({1, 128, 256, 64, 64}, AttentionMask::None, dtypes::Float32).all[0]},
                on_groups())
                .steps.size(),
            1u);
  EXPECT_GT(schedule(std::vector<Node>{small_attention({1, 8, 256, 64, 64}, AttentionMask::None).all[0]},
                     on_groups())
                .steps.size(),
            1u);
}

}  // namespace
}  // namespace lathe
