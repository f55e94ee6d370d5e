// What is malformed is found on its way through lower_kernel, in every build, and blamed on the step that
// made it.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/kernels.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "pipeline/compile.h"
#include "rewrite/rewriter.h"

namespace lathe::test {
namespace {

// The kernel with one range missing in an End, as many ways as there are.
std::vector<Node> with_a_range_open(Node kernel) {
  std::vector<Node> kernels;
  for (Node n : toposort(kernel)) {
    for (Node open : n.is(Op::End) ? closed_ranges(n) : std::span<const Node>()) {
      std::vector<Node> others(closed_ranges(n).begin(), closed_ranges(n).end());
      std::erase(others, open);
      NodeMap<Node> changed;
      changed[n] = others.empty() ? n.arg(0) : end(n.arg(0), others);
      kernels.push_back(substitute(kernel, changed));
    }
  }
  return kernels;
}

using Change = std::function<Node(std::string_view step, Node kernel)>;
class ChangingSink : public StepSink {
 public:
  explicit ChangingSink(Change change) : change_(std::move(change)) {}
  void kernel(const StepInfo& step, Node& kernel) override { kernel = change_(step.name, kernel); }

 private:
  Change change_;
};

TEST(LowerKernel, ARangeThatAnyStepLeavesOpenIsFoundInEveryBuildAndBlamedOnTheStep) {
  Scope scope;
  Node kernel = matmul(64, 48, 32);
  const std::vector<Opt> opts = parse_opts("UPCAST(0, 4) UPCAST(1, 8) THREAD(0, 2)");
  auto lower = [&](Change change, Checks checks) -> std::string {
    ChangingSink sink(std::move(change));
    const Target target = named_target("x86-64-v3");
    Compile compile(target);
    compile.checks = checks;
    compile.sink = &sink;
    try {
      lower_kernel(kernel, opts, compile, "k");
    } catch (const InternalError& e) {
      return e.what();
    }
    return "";
  };
  struct Place {
    std::string step;
    std::size_t way;
  };
  std::vector<Place> places;
  auto note = [&](std::string_view step, Node k) {
    for (std::size_t i = 0; i < with_a_range_open(k).size(); ++i) places.push_back({std::string(step), i});
    return k;
  };
  ASSERT_EQ(lower(note, Checks::Borders), "");
  ASSERT_GE(places.size(), 16u);
  for (const Place& place : places) {
    auto open = [&](std::string_view step, Node k) {
      return step == place.step ? with_a_range_open(k)[place.way] : k;
    };
    for (Checks checks : {Checks::Borders, Checks::EveryStep}) {
      const std::string message = lower(open, checks);
      EXPECT_NE(message.find("is not closed on the way to the Sink"), std::string::npos)
          << "way " << place.way << " after " << place.step << "\n"
          << message;
      EXPECT_NE(message.find("after pass " + place.step), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace lathe::test
