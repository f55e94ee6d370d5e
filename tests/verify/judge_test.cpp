// Judging: what rounds is accepted, whatever the options; what is wrong is refused.
#include "verify/expected.h"

#include <gtest/gtest.h>

#include <cstdlib>

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
using verify::Expected;
using verify::Judgement;

const reference::Bindings kBindings = {{"n", 5}};

// More than any of these kernels takes: everything is judged.
constexpr double kAll = 1e12;

// Of two that were unsure one turned out to be a rounding: the other is the one to show.
TEST(Judge, WhatIsShownIsWhatFailedInTheEnd) {
  std::vector<reference::Sample> samples(2);
  std::vector<reference::Cell> device(2);
  for (const std::size_t i : {0, 1}) {
    samples[i].element = static_cast<std::int64_t>(i);
    samples[i].written = true;
    samples[i].value.f = 100;
    samples[i].likely = 1e-3;
    samples[i].worst = 1;
    device[i].f = i == 0 ? 100.5 : 100.25;
  }
  const std::vector<DType> stored(2, dtypes::Float32);
  Judgement judgement = verify::judge(samples, stored, device);
  EXPECT_EQ(judgement.unsure, 2);
  EXPECT_TRUE(judgement.text().starts_with("element 0 is 100.5")) << judgement.text();
  judgement.verdicts = {verify::Verdict::Passed, verify::Verdict::Failed};
  judgement.recount(samples, stored, device, {});
  EXPECT_TRUE(judgement.text().starts_with("element 1 is 100.25")) << judgement.text();
  EXPECT_TRUE(judgement.text().ends_with("; 1 of 2 differ")) << judgement.text();
}

TEST(Judge, ResultsOfRandomOptionListsAreAccepted) {
  Scope scope;
  const std::vector<NamedKernel> kernels = small_kernels();
  const Target targets[] = {named_target("ref"), named_target("x86-64-v3"), named_target("x86-64-v4"),
                            named_target("sm_90a")};
  const char* count = std::getenv("JUDGE_LISTS");
  std::int64_t passed = 0, unjudged = 0;
  for (FuzzSeeds seeds(count != nullptr ? std::strtoull(count, nullptr, 10) : 1000); seeds.next();) {
    Scope inner;
    std::mt19937 random(static_cast<unsigned>(seeds.seed()));
    const NamedKernel& named = kernels[seeds.seed() % kernels.size()];
    const Target& target = targets[random() % std::size(targets)];
    const std::vector<Opt> opts = random_options(named.kernel, target, random);
    const std::string what =
        fmt::format("{} for {} with '{}', seed {}", named.name, target.name, to_string(opts), seeds.seed());
    const std::vector<Array> before = random_contents(named.kernel, seeds.seed());
    const Expected expected(named.kernel, before, kBindings, kAll);
    ASSERT_FALSE(expected.report().incomplete) << what << ": " << expected.report().reason;
    ASSERT_TRUE(expected.report().faults.empty()) << what << ": " << expected.report().faults[0];
    std::vector<Array> device = before;
    const Program program = lower_kernel(named.kernel, opts, target, "k");
    const reference::EvalReport ran = reference::program_eval(program, views_of(device), kBindings);
    ASSERT_TRUE(ran.ok() && !ran.sampled) << what << ": " << (ran.faults.empty() ? "" : ran.faults[0]);
    const Judgement judgement =
        expected.judge(before, device, [&] { return apply_options(named.kernel, opts, target); });
    EXPECT_EQ(judgement.failed, 0) << what << ": " << judgement.text();
    passed += judgement.passed;
    unjudged += judgement.unjudged;
  }
  EXPECT_LE(static_cast<double>(unjudged), 0.02 * static_cast<double>(passed));
}

}  // namespace
}  // namespace lathe::test
