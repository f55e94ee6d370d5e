// No investigation accuses anybody where nothing is wrong: of kernels of the op suite and its gradients, as
// the heuristic compiles them.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/child_process.h"
#include "codegen/codegen.h"
#include "investigate/kernel_investigation.h"
#include "ir/walk.h"
#include "replay/kernels_of.h"
#include "runtime/devices.h"

namespace lathe::test {
namespace {

constexpr std::size_t kRuns = 240, kLeastJudged = 200;

std::vector<NodeRef> all_kernels(std::string_view target) {
  std::vector<NodeRef> out;
  NodeMap<char> seen;
  for (const DataType dtype : {dtypes::float32, dtypes::int32})
    for (const ReplayGraph& graph : op_graphs(dtype))
      for (const NodeRef& kernel : scheduled_kernels(graph.build(), target))
        if (seen.try_emplace(kernel).second) out.push_back(kernel);
  return out;
}

TEST(Accusations, NoKernelOfTheOpSuiteIsAccused) {
  if (find_program("lathe-worker").empty()) GTEST_SKIP() << "lathe-worker is not built";
  const Scope scope;
  const Target& target = open_device("CPU").compiler->target();
  const std::vector<NodeRef> kernels = all_kernels(target.name);
  ASSERT_GE(kernels.size(), kRuns);
  investigate::WorkerLaboratory laboratory(0);
  std::vector<dev::Finding> found(kRuns);
  laboratory.for_each(kRuns, [&](investigate::Laboratory& own, std::size_t i) {
    const Scope inside;
    investigate::Subject subject;
    subject.kernel = kernels[i * kernels.size() / kRuns];
    subject.name = fmt::format("suite_{}", i);
    subject.options = choose_options(subject.kernel, target);
    found[i] = investigate::investigate(subject, own, {}, {});
  });
  std::size_t judged = 0;
  for (std::size_t i = 0; i < kRuns; ++i) {
    EXPECT_EQ(found[i].kind, "") << "suite_" << i << ": " << found[i].summary;
    judged += found[i].summary.starts_with("the kernel does not fail here");
  }
  EXPECT_GE(judged, kLeastJudged);
}

}  // namespace
}  // namespace lathe::test
