// Judging: what rounds is accepted, whatever the options; what is wrong is refused.
#include "verify/judge.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/kernels.h"
#include "codegen/random_options.h"
#include "support/fuzz.h"
#include "verify/judging.h"

namespace lathe::test {
namespace {

using reference::Array;
using reference::Sample;
using verify::Judgement;
using verify::Verdict;

const reference::Bindings kBindings = {{"n", 5}};

// How many of the unsure ones the kernel with its options, in float64, does not explain.
int not_rounding(const Judged& judged, const Judgement& judgement, const std::vector<Array>& device,
                 Node with_options) {
  if (judgement.unsure == 0) return 0;
  std::vector<Array> again = judged.before();
  const std::vector<reference::View> views = views_of(again);
  reference::EvalOptions options;
  options.wide_floats = true;
  options.max_ops = 1e10;
  const reference::EvalReport report = reference::kernel_eval(with_options, views, kBindings, options);
  EXPECT_TRUE(report.ok());
  int out = 0;
  for (std::size_t i = 0; i < judgement.verdicts.size(); ++i) {
    if (judgement.verdicts[i] != Verdict::Unsure) continue;
    const Sample& s = judged.report().samples[i];
    const auto slot = static_cast<std::size_t>(s.slot);
    out +=
        !verify::is_rounding(s, judged.stored(i), device[slot].cell(s.element), again[slot].cell(s.element));
  }
  return out;
}

TEST(Judge, ResultsOfRandomOptionListsAreAccepted) {
  Scope scope;
  const std::vector<NamedKernel> kernels = small_kernels();
  const Target targets[] = {named_target("ref"), named_target("x86-64-v3"), named_target("x86-64-v4"),
                            named_target("sm_90a")};
  const char* count = std::getenv("JUDGE_LISTS");
  std::int64_t samples = 0, unjudged = 0, unsure = 0;
  std::map<std::string, std::int64_t> skipped;
  for (FuzzSeeds seeds(count != nullptr ? std::strtoull(count, nullptr, 10) : 150); seeds.next();) {
    Scope inner;
    std::mt19937 random(static_cast<unsigned>(seeds.seed()));
    const NamedKernel& named = kernels[seeds.seed() % kernels.size()];
    const Target& target = targets[random() % std::size(targets)];
    const std::vector<Opt> opts = random_options(named.kernel, target, random);
    const std::string what =
        fmt::format("{} for {} with '{}', seed {}", named.name, target.name, to_string(opts), seeds.seed());
    Judged judged(named.kernel, random_contents(named.kernel, seeds.seed()), kBindings);
    ASSERT_FALSE(judged.report().incomplete) << what << ": " << judged.report().reason;
    ASSERT_TRUE(judged.report().faults.empty()) << what << ": " << judged.report().faults[0];
    std::vector<Array> device = judged.before();
    const std::vector<reference::View> views = views_of(device);
    const Program program = lower_kernel(named.kernel, opts, target, "k");
    const reference::EvalReport ran = reference::program_eval(program, views, kBindings);
    ASSERT_TRUE(ran.ok() && !ran.sampled) << what << ": " << (ran.faults.empty() ? "" : ran.faults[0]);
    const Judgement judgement = judged(device);
    EXPECT_EQ(judgement.failed, 0) << what << ": " << judgement.text();
    EXPECT_EQ(not_rounding(judged, judgement, device, apply_options(named.kernel, opts, target)), 0)
        << what << ": " << judgement.text();
    samples += judgement.judged() + judgement.unjudged;
    unjudged += judgement.unjudged;
    unsure += judgement.unsure;
    if (judgement.unjudged > 0) skipped[named.name] += judgement.unjudged;
    if (judgement.unsure > 0) fmt::print("{}: {}\n", what, judgement.text());
  }
  fmt::print("{} samples, {} unsure, {} unjudged\n", samples, unsure, unjudged);
  for (const auto& [name, n] : skipped) fmt::print("  {}: {}\n", name, n);
}

}  // namespace
}  // namespace lathe::test
