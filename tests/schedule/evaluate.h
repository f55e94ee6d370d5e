// Schedules run kernel by kernel on REF, for the scheduler's tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "ir/build.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "reference/reference.h"
#include "reference/tensor_eval.h"
#include "schedule/schedule.h"

namespace lathe::test {

inline int count(Node root, Op op) {
  int n = 0;
  for (Node x : toposort(root)) n += x.is(op);
  return n;
}

inline reference::Array random_floats(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  reference::Array out(dtypes::Float32, n);
  for (std::int64_t i = 0; i < n; ++i) out.set(i, {0, normal(random)});
  return out;
}

inline void run(const Schedule& schedule, reference::BufferContents& memory) {
  for (const Step& step : schedule.steps) {
    check_kernel(step.ast, "schedule");
    std::vector<reference::View> views;
    for (Node b : step.buffers)
      if (!memory.contains(b)) memory[b] = reference::Array(b.dtype(), buffer_size(b));
    for (Node b : step.buffers) views.push_back(memory[b].view());
    reference::EvalReport report = reference::kernel_eval(step.ast, views);
    ASSERT_TRUE(report.ok()) << (report.faults.empty() ? "incomplete" : report.faults[0]) << "\n"
                             << print_graph(step.ast);
  }
}

// The scheduled kernels against the graph, element by element.
inline void expect_equal(Node target, const reference::BufferContents& contents, double tolerance = 1e-6,
                         const ScheduleOptions& options = {}) {
  Schedule s = schedule(std::span(&target, 1), options);
  reference::BufferContents memory = contents;
  run(s, memory);
  Node result = s.results[0];
  for (Node n : toposort(result))  // of an empty tensor, which no kernel writes
    if (n.is(Op::Buffer) && !memory.contains(n)) memory[n] = reference::Array(n.dtype(), buffer_size(n));
  auto got = reference::tensor_eval(std::span(&result, 1), memory);
  auto want = reference::tensor_eval(std::span(&target, 1), contents);
  ASSERT_EQ(got[0].sizes, want[0].sizes);
  for (std::int64_t i = 0; i < want[0].data.size(); ++i) {
    double a = got[0].data.number(i), b = want[0].data.number(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ASSERT_NEAR(a, b, tolerance * std::max(1.0, std::abs(b))) << i;
  }
}

}  // namespace lathe::test
