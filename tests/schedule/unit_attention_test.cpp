// Attention in one kernel of a group of threads: both products on a matrix unit that reads panels, the
// weights between them in registers. Scheduled, given the options of the heuristic, and run as a program by
// REF beside the tensor graph.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "codegen/codegen.h"
#include "evaluate.h"
#include "graphs.h"
#include "ir/walk.h"
#include "reference/reference.h"
#include "reference/tensor_eval.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace lathe {
namespace {

using namespace test;
using reference::Array;
using reference::BufferContents;

struct Sizes {
  std::int64_t heads, rows, keys, width, out;
  std::int64_t shared = 1;  // query heads that have the same keys and values
};

enum class Mask { None, Causal, Given, Window };

struct Attention {
  Node q, k, v, mask, out;
};

Node input_of(DType dtype, std::initializer_list<std::int64_t> shape) {
  std::int64_t n = 1;
  for (std::int64_t s : shape) n *= s;
  return view(new_buffer(dtype, n, "CPU"), shape);
}

Attention attention(const Sizes& s, Mask mask, DType dtype = dtypes::BFloat16) {
  const DType f = dtypes::Float32;
  const std::int64_t kept = s.heads / s.shared;
  Attention a;
  a.q = input_of(dtype, {s.heads, s.rows, s.width});
  a.k = input_of(dtype, {kept, s.keys, s.width});
  a.v = input_of(dtype, {kept, s.keys, s.out});
  auto repeated = [&](Node x, std::int64_t width) {
    return view(grow(view(x, {kept, 1, s.keys, width}), {kept, s.shared, s.keys, width}),
                {s.heads, s.keys, width});
  };
  Node key = repeated(a.k, s.width), value = repeated(a.v, s.out);
  Node q = grow(view(cast(a.q, f), {s.heads, s.rows, 1, s.width}), {s.heads, s.rows, s.keys, s.width});
  Node k = grow(view(cast(key, f), {s.heads, 1, s.keys, s.width}), {s.heads, s.rows, s.keys, s.width});
  Node x = view(sum(q * k, {3}), {s.heads, s.rows, s.keys}) * float_const(f, 0.25);
  Node low = float_const(f, -std::numeric_limits<double>::infinity());
  auto whole = [&](Node n) { return grow(n, {s.heads, s.rows, s.keys}); };
  Node row = whole(view(arange(dtypes::Int32, index_const(s.rows)), {1, s.rows, 1}));
  Node column = whole(view(arange(dtypes::Int32, index_const(s.keys)), {1, 1, s.keys}));
  if (mask == Mask::Causal || mask == Mask::Window) x = where(less(row, column), low, x);
  if (mask == Mask::Window) x = where(less(column + int_const(dtypes::Int32, 50), row), low, x);
  if (mask == Mask::Given) {
    a.mask = input_of(f, {s.rows, s.keys});
    x = x + whole(view(a.mask, {1, s.rows, s.keys}));
  }
  Node e = apply(Op::Exp2, (x - whole(maximum(x, {2}))) * float_const(f, 1.4426950408889634));
  Node w = cast(e * whole(apply(Op::Recip, sum(e, {2}))), dtype);
  Node p = grow(view(cast(w, f), {s.heads, s.rows, 1, s.keys}), {s.heads, s.rows, s.out, s.keys});
  Node v = grow(view(swap_axes(cast(value, f), {0, 2, 1}), {s.heads, 1, s.out, s.keys}),
                {s.heads, s.rows, s.out, s.keys});
  a.out = cast(view(sum(p * v, {3}), {s.heads, s.rows, s.out}), dtype);
  return a;
}

BufferContents contents_of(const Attention& a) {
  BufferContents out;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (Node n : {a.q, a.k, a.v, a.mask}) {
    if (!n) continue;
    Array array(n.dtype(), buffer_size(n.arg(0)));
    for (std::int64_t i = 0; i < array.size(); ++i) array.set(i, {0, normal(random)});
    out[n.arg(0)] = array;
  }
  return out;
}

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

void expect_program_gives_the_graph(const Attention& a) {
  Schedule s = schedule(std::vector<Node>{a.out}, on_groups());
  ASSERT_EQ(s.steps.size(), 1u);
  std::string options;
  const Program program = one_program(s, options);
  SCOPED_TRACE(options);
  EXPECT_GE(count_in(program, Op::PanelDot), 2) << "both products are the unit's";
  BufferContents memory = contents_of(a);
  std::vector<reference::View> views;
  for (Node b : s.steps[0].buffers)
    if (!memory.contains(b)) memory[b] = Array(b.dtype(), buffer_size(b));
  for (Node b : s.steps[0].buffers) views.push_back(memory[b].view());
  const reference::EvalReport report = reference::program_eval(program, views);
  ASSERT_TRUE(report.ok()) << (report.faults.empty() ? "incomplete" : report.faults[0]);
  Node result = s.results[0];
  auto got = reference::tensor_eval(std::span(&result, 1), memory);
  auto want = reference::tensor_eval(std::span(&a.out, 1), contents_of(a));
  for (std::int64_t i = 0; i < want[0].data.size(); ++i) {
    const double x = got[0].data.number(i), y = want[0].data.number(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    ASSERT_NEAR(x, y, 0.02 * std::max(1.0, std::abs(y))) << i;
  }
}

TEST(UnitAttention, GivesWhatTheGraphDoes) {
  Scope scope;
  expect_program_gives_the_graph(attention({1, 128, 256, 64, 64}, Mask::None));
}

TEST(UnitAttention, SkipsTilesAndMasksTheDiagonal) {
  Scope scope;
  expect_program_gives_the_graph(attention({1, 192, 256, 64, 64}, Mask::Causal));
}

TEST(UnitAttention, TakesOddLengthsAndWidths) {
  Scope scope;
  expect_program_gives_the_graph(attention({1, 70, 200, 48, 72}, Mask::None));
}

TEST(UnitAttention, TakesHeadsThatShareKeysWithAMask) {
  Scope scope;
  expect_program_gives_the_graph(attention({2, 64, 128, 64, 64, 2}, Mask::Given));
}

TEST(UnitAttention, TakesAWindow) {
  Scope scope;
  expect_program_gives_the_graph(attention({1, 128, 256, 32, 64}, Mask::Window));
}

TEST(UnitAttention, IsTakenWithItsPanelsByBulkCopies) {
  Scope scope;
  for (std::int64_t width : {64, 80, 96, 128, 256}) {
    Schedule s =
        schedule(std::vector<Node>{attention({16, 4096, 4096, width, width}, Mask::Causal).out}, on_groups());
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
  EXPECT_GT(schedule(std::vector<Node>{attention({1, 128, 256, 64, 64}, Mask::None, dtypes::Float32).out},
                     on_groups())
                .steps.size(),
            1u);
  EXPECT_GT(
      schedule(std::vector<Node>{attention({1, 8, 256, 64, 64}, Mask::None).out}, on_groups()).steps.size(),
      1u);
}

}  // namespace
}  // namespace lathe
