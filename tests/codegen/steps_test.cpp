// The lists of steps: who sees them, who is blamed, and which a compile may do without.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "codegen/random_options.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rewrite/rewriter.h"
#include "rules/simplify.h"

namespace lathe::test {
namespace {

std::vector<StepInfo> kernel_steps() {
  std::vector<StepInfo> out = option_steps();
  for (const StepInfo& step : lower_steps()) out.push_back(step);
  return out;
}

std::string refusal(Node kernel, std::span<const Opt> opts, const Compile& compile) {
  try {
    lower_kernel(kernel, opts, compile, "some_kernel");
  } catch (const InternalError& e) {
    return e.what();
  }
  return "nothing was refused";
}

// A panel that nothing fills, in place of what is loaded.
Node read_nothing(Node node, const Bindings&, Rewriter&) {
  if (!node.arg(0).is(Op::Param)) return Node();
  return load(after(define(node.dtype(), 7, 64, Space::Register), ranges_of(node)), index_const(0));
}
constexpr Rule kForgetting[] = {{"forget-to-fill", node_of(Op::Load), by(read_nothing)}};

// An index that is a float.
Node at_a_half(Node load) {
  return intern(Op::Load, load.dtype(), {load.arg(0), float_const(dtypes::Float32, 0.5)});
}
Node read_at_a_half(Node node, const Bindings&, Rewriter&) { return at_a_half(node); }
constexpr Rule kHalving[] = {{"read-at-a-half", node_of(Op::Load), by(read_at_a_half)}};

TEST(Steps, WhatIsMalformedNamesKernelStepRuleAndNodeInEveryBuild) {
  Scope scope;
  Node r = range(index_const(16), 0, RangeKind::Global);
  Node value = load(param(dtypes::Float32, 1, 16), r);
  Node open = store(param(dtypes::Float32, 0, 16), r, value), closed = end(open, {&r, 1});
  const RuleSet forgetting("planted", {{"planted", kForgetting, [](Node) { return true; }}});
  const RuleSet halving("planted", {{"planted", kHalving, [](Node) { return true; }}});
  struct Case {
    Node effect;
    const RuleSet* planted;
    const char* says;
  };
  const Target target = named_target("x86-64-v3");
  for (const Case& c :
       {Case{open, nullptr, "after pass schedule: range 0 is not closed on the way to the Sink"},
        Case{closed, &forgetting, "define 7 is read"},
        Case{closed, &halving, "after pass simplify, rule read-at-a-half of planted: "}})
    for (Checks checks : {Checks::Borders, Checks::EveryStep}) {
      Compile compile(target);
      compile.checks = checks;
      compile.rules.planted = c.planted;
      const std::string message = refusal(sink({&c.effect, 1}), {}, compile);
      for (const char* part : {c.says, "after pass", "guilty: ", "kernel some_kernel"})
        EXPECT_NE(message.find(part), std::string::npos) << "wanted " << part << " in\n" << message;
    }
}

// Puts something malformed into the place of what one step gave.
struct Spoiled : StepSink {
  explicit Spoiled(std::string name) : step(std::move(name)) {}
  void kernel(const StepInfo& from, Node& kernel) override {
    if (from.name != step) return;
    NodeMap<Node> map;
    for (Node n : toposort(kernel))
      if (n.is(Op::Load) && base_memory(n.arg(0)).is(Op::Param)) map[n] = at_a_half(n);
    kernel = substitute(kernel, map);
  }
  void program(const StepInfo& from, Program& program) override {
    if (from.name == step) std::swap(program.code.front(), program.code.back());
  }
  std::string step;
};

TEST(Steps, EachIsBlamedForWhatItBreaks) {
  Scope scope;
  const Target target = named_target("x86-64-v3");
  for (const StepInfo& step : kernel_steps())
    for (Checks checks : {Checks::Borders, Checks::EveryStep}) {
      Spoiled spoiled(step.name);
      Compile compile(target);
      compile.checks = checks;
      compile.sink = &spoiled;
      const std::string message = refusal(row_sum(4, 64), parse_opts("UPCAST(0, 4)"), compile);
      EXPECT_NE(message.find(std::string("malformed after pass ") + step.name + ":"), std::string::npos)
          << step.name << ": " << message;
    }
}

struct Seen : StepSink {
  void kernel(const StepInfo& step, Node& /*kernel*/) override { names.emplace_back(step.name); }
  void program(const StepInfo& step, Program& /*program*/) override { names.emplace_back(step.name); }
  std::vector<std::string> names;
};

TEST(Steps, TheSinkSeesEachOnceInOrderAndNothingThatWasOnlyTried) {
  Scope scope;
  const Target target = named_target("x86-64-v3");
  Seen seen;
  Compile compile(target);
  compile.sink = &seen;
  Node kernel = matmul(64, 64, 512);
  const std::vector<Opt> opts = choose_options(kernel, compile);
  EXPECT_TRUE(seen.names.empty());
  lower_kernel(kernel, opts, compile, "k");
  std::vector<std::string> want;
  for (const StepInfo& step : kernel_steps()) want.emplace_back(step.name);
  EXPECT_EQ(seen.names, want);
  compile.rules.disabled = {"prefetch_tiles"};
  seen.names.clear();
  lower_kernel(kernel, opts, compile, "k");
  std::erase(want, "prefetch_tiles");
  EXPECT_EQ(seen.names, want);
}

TEST(Steps, WithoutAnOptionalOneTheValuesAreTheSame) {
  Scope scope;
  for (const StepInfo& step : kernel_steps()) {
    if (!step.optional) continue;
    for (const char* name : {"x86-64-v3", "sm_90a"}) {
      const Target target = named_target(name);
      Compile compile(target);
      compile.rules.disabled = {step.name};
      for (const NamedKernel& k : small_kernels()) {
        SCOPED_TRACE(k.name + " without " + step.name);
        EXPECT_EQ(compare_with_reference(k.kernel, choose_options(k.kernel, compile), compile, 1), "");
        std::mt19937 random(7);
        EXPECT_EQ(compare_with_reference(k.kernel, random_options(k.kernel, target, random), compile, 1), "");
      }
    }
  }
}

// A compile that is made of a target nobody else has still has it later, and so have its copies.
TEST(Steps, ACompileKeepsATargetThatIsATemporary) {
  const Compile compile(named_target("x86-64-v3"));
  const Compile copy = compile.quiet();
  ASSERT_NE(copy.kept, nullptr);
  EXPECT_EQ(&copy.target, copy.kept.get());
  EXPECT_EQ(copy.target.name, "x86-64-v3");
  const Target target = named_target("x86-64-v3");
  EXPECT_EQ(&Compile(target).target, &target) << "others' targets are not copied";
}

// Of all rules in turn, each with some of the kernels: what is left comes to an end and means the same.
TEST(Steps, WithoutAnyRewriteRuleTheValuesAreTheSame) {
  constexpr std::size_t kKernelsOfARule = 4;
  const Scope scope;
  std::set<std::string_view> names;
  for (const RuleTable& table : simplify_rules().tables())
    for (const Rule& rule : table.rules) names.insert(rule.name);
  const std::vector<NamedKernel> kernels = small_kernels();
  std::size_t at = 0;
  for (const std::string_view name : names)
    for (std::size_t i = 0; i < kKernelsOfARule; ++i, ++at) {
      const Scope inside;
      const Target target = named_target(at % 3 == 0 ? "sm_90a" : "x86-64-v4");
      Compile compile(target);
      compile.rules.disabled = {std::string(name)};
      const NamedKernel& k = kernels[at % kernels.size()];
      SCOPED_TRACE(k.name + " without " + std::string(name));
      std::string differs;
      ASSERT_NO_THROW(differs =
                          compare_with_reference(k.kernel, choose_options(k.kernel, compile), compile, 1));
      EXPECT_EQ(differs, "");
    }
}

}  // namespace
}  // namespace lathe::test
