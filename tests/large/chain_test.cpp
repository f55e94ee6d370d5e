// A million ops one after the other: nothing recurses over them, and all work is linear. Counted in nodes
// that are asked for and instructions; something quadratic would take hours.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "codegen/codegen.h"
#include "ir/build.h"
#include "ir/program.h"
#include "ir/walk.h"
#include "schedule/schedule.h"
#include "target/target.h"

namespace lathe {
namespace {

constexpr std::int64_t kMillion = 1'000'000, kFew = 50'000;

template <class Function>
double nodes_asked_for(Function&& function) {
  const InternerStats before = interner_stats();
  function();
  const InternerStats after = interner_stats();
  return static_cast<double>(after.created + after.hits - before.created - before.hits);
}

struct Chain {
  const char* name;
  std::int64_t most;
  Node (*next)(Node x, Node first);
};
constexpr Chain kChains[] = {
    {"roots", kMillion, [](Node x, Node) { return apply(Op::Sqrt, x); }},
    {"sums", 2 * kFew, [](Node x, Node first) { return x + first; }},
};

TEST(Chain, AMillionOpsAreScheduledInLinearWork) {
  for (const Chain& chain : kChains) {
    double work[2] = {};
    for (std::int64_t n : {kFew, 2 * kFew, kMillion}) {
      if (n > chain.most) continue;
      Scope scope;
      Node first = new_buffer(dtypes::Float32, 4, "CPU"), x = first;
      for (std::int64_t i = 0; i < n; ++i) x = chain.next(x, first);
      Schedule made;
      const double asked = nodes_asked_for([&] { made = schedule(std::span(&x, 1)); });
      std::set<const void*> distinct;
      for (const Step& step : made.steps) distinct.insert(step.ast.node().get());
      EXPECT_LE(distinct.size(), 3u) << chain.name;
      EXPECT_GE(made.steps.size(), static_cast<std::size_t>(n / 1000)) << chain.name;
      if (n != kMillion) work[n / kFew - 1] = asked;
    }
    EXPECT_LE(work[1], 2.2 * work[0]) << chain.name;
  }
}

TEST(Chain, AKernelOfAMillionOpsIsLoweredInLinearWork) {
  double work[2] = {};
  for (std::int64_t n : {kFew, 2 * kFew, kMillion}) {
    Scope scope;
    Node i = range(index_const(4), 0, RangeKind::Global);
    Node value = load(param(dtypes::Float32, 1, 4), i);
    for (std::int64_t k = 0; k < n; ++k) value = apply(Op::Sqrt, value);
    Node effect = end(store(param(dtypes::Float32, 0, 4), i, value), {&i, 1});
    Node kernel = sink({&effect, 1});
    Program program;
    const double asked =
        nodes_asked_for([&] { program = lower_kernel(kernel, {}, named_target("x86-64-v3"), "chain"); });
    std::int64_t roots = 0;
    for (const NodeRef& step : program.code) roots += step->is(Op::Sqrt) ? 1 : 0;
    EXPECT_EQ(roots, n);
    if (n != kMillion) work[n / kFew - 1] = asked;
  }
  EXPECT_LE(work[1], 2.2 * work[0]);
}

}  // namespace
}  // namespace lathe
