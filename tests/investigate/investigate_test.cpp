// The investigator on faults of which it knows nothing: rules that are planted, and steps that are spoiled,
// in this process. Each has to be named, with a small kernel that shows it.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/engine.h"
#include "investigate/command.h"
#include "investigate/graph_investigation.h"
#include "investigate/kernel_investigation.h"
#include "investigate/program_investigation.h"
#include "investigate/rule_check.h"
#include "investigate/shrink.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "rewrite/rewriter.h"

namespace lathe::investigate {
namespace {

using dev::Verdict;

struct Folder {
  Folder() {
    char pattern[] = "/tmp/lathe-investigate-test-XXXXXX";
    path = mkdtemp(pattern);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

// out[i] = sum over k of a[i, k] * b[k], and twice that plus c[i] beside it.
Subject sums(std::int64_t rows, std::int64_t steps) {
  const Node i = range(index_const(rows), 0, RangeKind::Global),
             k = range(index_const(steps), 1, RangeKind::Reduce);
  const Node a = load(param(dtypes::Float32, 2, rows * steps), i * index_const(steps) + k),
             b = load(param(dtypes::Float32, 3, steps), k), c = load(param(dtypes::Float32, 4, rows), i);
  const Node sum = reduce_ranges(Op::Add, a * b, {&k, 1});
  const Node first = end(store(param(dtypes::Float32, 0, rows), i, sum), {&i, 1});
  const Node second =
      end(store(param(dtypes::Float32, 1, rows), i, sum * number(dtypes::Float32, 2) + c), {&i, 1});
  Node effects[] = {first, second};
  Subject subject;
  subject.name = "sums";
  subject.kernel = sink(effects);
  return subject;
}

dev::Finding found(const Subject& subject, const std::string& folder) {
  LocalLaboratory laboratory;
  dev::InvestigationLimits limits;
  limits.folder = folder;
  return investigate(subject, laboratory, limits, {});
}

std::string said(const dev::Finding& finding) {
  std::string text = finding.kind + " " + finding.cause + ": " + finding.summary + "\n";
  for (const dev::Hypothesis& h : finding.hypotheses)
    text += h.claim + " | " + h.evidence + " | " + std::to_string(static_cast<int>(h.verdict)) + "\n";
  return text;
}

TEST(Investigate, ARightKernelIsNotAccused) {
  const Scope scope;
  const Folder folder;
  for (const char* options : {"", "UPCAST(0, 4)", "UNROLL(0, 4)", "UPCAST(0, 3) UNROLL(0, 5)"}) {
    Subject subject = sums(13, 22);
    subject.options = parse_opts(options);
    const dev::Finding finding = found(subject, folder.path);
    EXPECT_EQ(finding.kind, "") << said(finding);
    EXPECT_EQ(finding.cause, "");
    EXPECT_EQ(finding.repro, "");
    ASSERT_FALSE(finding.hypotheses.empty());
    EXPECT_EQ(finding.hypotheses[0].verdict, Verdict::Refuted);
  }
}

// Loads of the first factor are one element off.
Node one_off(Node node, const Bindings&, Rewriter&) {
  const Node memory = node.arg(0), index = node.arg(1);
  if (!memory.is(Op::Param) || memory.dtype() != dtypes::Float32 || index.is(Op::FloorMod)) return Node();
  return load(memory, floor_mod(index + index_const(1), index_const(memory_size(memory))));
}
constexpr Rule kOneOff[] = {{"one-off", node_of(Op::Load), by(one_off)}};

TEST(Investigate, APlantedRuleIsNamed) {
  const Scope scope;
  const Folder folder;
  const RuleSet set("planted", {{"planted", kOneOff, [](Node) { return true; }}});
  const engine::ExperimentScope experiment({.planted = &set});
  Subject subject = sums(13, 22);
  subject.options = parse_opts("UPCAST(0, 4)");
  const dev::Finding finding = found(subject, folder.path);
  EXPECT_EQ(finding.kind, "rule") << said(finding);
  EXPECT_EQ(finding.cause, "one-off");
  EXPECT_LE(finding.repro_nodes, 10);
  // The repro fails by itself, and not once the rule is gone.
  const Subject again = read_subject(finding.repro);
  EXPECT_EQ(run_on_device(again, {}, 1).outcome, Outcome::Wrong);
  EXPECT_EQ(run_on_device(again, {.without = {"one-off"}}, 1).outcome, Outcome::Right);
}

// Puts something else in the place of what one step gives.
struct Spoiled : StepSink {
  explicit Spoiled(std::string name) : step(std::move(name)) {}
  static NodeMap<Node> wrong(std::span<const Node> order) {
    NodeMap<Node> map;
    for (Node n : order) {
      if (!is_scalar_op(n.op()) || n.arg_count() < 2 || !n.dtype().is_float() || !n.arg(1).dtype().is_float())
        continue;
      std::vector<Node> args(n.args().begin(), n.args().end());
      args[1] = apply(Op::Neg, args[1]);
      map[n] = rebuild(n, args);
      break;
    }
    return map;
  }
  void kernel(const StepInfo& from, Node& kernel) override {
    if (from.name == step) kernel = substitute(kernel, wrong(toposort(kernel)));
  }
  void program(const StepInfo& from, Program& program) override {
    if (from.name == step) {
      const std::vector<Node> code(program.code.begin(), program.code.end());
      const NodeMap<Node> map = wrong(toposort(code));
      for (NodeRef& node : program.code) node = substitute(node, map);
    }
  }
  std::string step;
};

TEST(Investigate, ASpoiledStepIsNamedAndShrunk) {
  const Scope scope;
  const Folder folder;
  for (const char* step : {"option_ranges", "expand", "lower_reduce", "lower_index", "linearize"}) {
    Spoiled spoiled(step);
    const engine::ExperimentScope experiment({.sink = &spoiled});
    LocalLaboratory laboratory;
    Subject subject = sums(13, 22);
    subject.options = parse_opts("UPCAST(0, 4)");
    dev::InvestigationLimits limits;
    limits.folder = folder.path;
    const dev::Finding finding = investigate(subject, laboratory, limits, {});
    EXPECT_EQ(finding.kind, "step") << step << "\n" << said(finding);
    EXPECT_EQ(finding.cause, step) << said(finding);
    EXPECT_LE(finding.repro_nodes, 10) << step << "\n" << said(finding);
    EXPECT_NE(finding.repro, "");
  }
}

TEST(Investigate, WhoeverListensMayEndIt) {
  const Scope scope;
  const Folder folder;
  Spoiled spoiled("expand");
  const engine::ExperimentScope experiment({.sink = &spoiled});
  LocalLaboratory laboratory;
  dev::InvestigationLimits limits;
  limits.folder = folder.path;
  int heard = 0;
  const dev::Finding finding =
      investigate(sums(5, 6), laboratory, limits, [&](const dev::Hypothesis&) { return ++heard < 2; });
  EXPECT_EQ(heard, 2);
  EXPECT_EQ(finding.hypotheses.size(), 2u);
  EXPECT_EQ(finding.kind, "");
  EXPECT_FALSE(finding.way_out_verified);
}

TEST(Investigate, AFileIsReadAsItWasWritten) {
  const Scope scope;
  const Folder folder;
  Subject subject = sums(5, 6);
  subject.options = parse_opts("UPCAST(0, 4)");
  subject.seed = 7;
  subject.known = {{2, 3, 1.5, 1}};
  subject.printer = "c";
  write_file_atomic(folder.path + "/k.txt", to_text(subject, "two\nlines"));
  const Subject again = read_subject(folder.path + "/k.txt");
  EXPECT_EQ(again.kernel, subject.kernel);
  EXPECT_EQ(again.options, subject.options);
  EXPECT_EQ(again.seed, 7u);
  EXPECT_EQ(again.printer, "c");
  ASSERT_EQ(again.known.size(), 1u);
  EXPECT_EQ(contents(again)[2].number(3), 1.5);
  EXPECT_EQ(contents(again), contents(subject));
  write_file_atomic(folder.path + "/no.txt", "nothing");
  EXPECT_THROW(read_subject(folder.path + "/no.txt"), UserError);
  EXPECT_THROW(read_graph(folder.path + "/k.txt"), UserError);
}

TEST(Investigate, TheShrinkerKeepsWhatFailsAndDropsTheRest) {
  const Scope scope;
  // Fails as long as anything is multiplied.
  const auto multiplies = [](const Subject& subject) {
    const std::vector<Node> all = toposort(subject.kernel);
    return std::ranges::any_of(all, [](Node n) { return n.is(Op::Mul) && n.dtype().is_float(); });
  };
  Subject subject = sums(13, 22);
  subject.options = parse_opts("UPCAST(0, 4) UNROLL(0, 2)");
  const Subject small = shrink(subject, multiplies);
  EXPECT_TRUE(multiplies(small));
  EXPECT_TRUE(small.options.empty());
  EXPECT_LE(node_count(small.kernel), 4);
  EXPECT_EQ(small.kernel->arg_count(), 1u);
}

TEST(Investigate, RulesThatChangeValuesAreSeen) {
  const Scope scope;
  const Node r = range(index_const(9), 0, RangeKind::Global), v = load(param(dtypes::Float32, 0, 9), r);
  EXPECT_EQ(difference(r + index_const(2), index_const(2) + r), "");
  EXPECT_NE(difference(r + index_const(2), r + index_const(3)), "");
  EXPECT_NE(difference(min(r, index_const(5)), r), "");
  EXPECT_EQ(difference(min(r, index_const(50)), r), "");
  EXPECT_EQ(difference(v + v, v * number(dtypes::Float32, 2)), "");
  EXPECT_NE(difference(v + v, v), "");
  EXPECT_EQ(difference(v, v + v), "") << "what has no operands says nothing";
}

// A rule of scheduling that is wrong: the kernels do what they say, and it is not what the graph says.
TEST(Investigate, AGraphThatIsScheduledWronglyNamesTheRule) {
  const Scope scope;
  const Folder folder;
  const Node memory = new_buffer(dtypes::Float32, 24, "CPU");
  Node shape[] = {index_const(4), index_const(6)};
  const std::int64_t axes[] = {1};
  const Node matrix = reshape(memory, shape);
  const GraphSubject graph{"rows", {NodeRef(flip(matrix, axes) + matrix)}};
  LocalLaboratory laboratory;
  dev::InvestigationLimits limits;
  limits.folder = folder.path;
  const dev::Finding right = investigate(graph, laboratory, limits, {});
  EXPECT_EQ(right.kind, "") << said(right);
  const RuleSet set("planted", {{"planted", kOneOff, [](Node) { return true; }}});
  const engine::ExperimentScope experiment({.planted = &set});
  const dev::Finding wrong = investigate(graph, laboratory, limits, {});
  EXPECT_EQ(wrong.kind, "rule") << said(wrong);
  EXPECT_EQ(wrong.cause, "one-off") << said(wrong);
  EXPECT_TRUE(is_graph_file(wrong.repro));
  EXPECT_EQ(run_schedule_on_ref(read_graph(wrong.repro), {}).outcome, Outcome::Wrong);
}

TEST(Investigate, AWorkerSaysWhatThisProcessSays) {
  if (find_program("lathe-worker").empty()) GTEST_SKIP() << "lathe-worker is not built";
  const Scope scope;
  WorkerLaboratory worker;
  LocalLaboratory here;
  Subject subject = sums(13, 22);
  subject.options = parse_opts("UPCAST(0, 4)");
  for (const Conditions& conditions : {Conditions{}, Conditions{.without_options = true}}) {
    const DeviceRun there = worker.device(subject, conditions, 2), run = here.device(subject, conditions, 2);
    EXPECT_EQ(there.outcome, Outcome::Right) << there.text;
    EXPECT_EQ(there.outcome, run.outcome);
    EXPECT_EQ(there.passed, run.passed);
    EXPECT_EQ(there.text, run.text);
    const StepsRun steps = worker.steps(subject, conditions), local = here.steps(subject, conditions);
    EXPECT_EQ(steps.outcome, Outcome::Right) << steps.text;
    ASSERT_EQ(steps.steps.size(), local.steps.size());
    for (std::size_t i = 0; i < steps.steps.size(); ++i) {
      EXPECT_EQ(steps.steps[i].name, local.steps[i].name);
      EXPECT_EQ(steps.steps[i].outcome, Outcome::Right) << steps.steps[i].name << ": " << steps.steps[i].text;
    }
  }
  // A list that the kernel does not take is refused, and the worker lives on.
  subject.options = parse_opts("UPCAST(9, 4)");
  EXPECT_EQ(worker.device(subject, {}, 1).outcome, Outcome::Refused);
  subject.options.clear();
  EXPECT_EQ(worker.device(subject, {}, 1).outcome, Outcome::Right);
}

TEST(Investigate, CommandsEndAsTheyDo) {
  EXPECT_TRUE(run_command({"true"}, {}, 10).ok());
  const CommandRun failed = run_command({"sh", "-c", "echo no >&2; exit 3"}, {}, 10);
  EXPECT_EQ(failed.code, 3);
  EXPECT_EQ(failed.text(), "ended with status 3: no");
  EXPECT_EQ(run_command({"sh", "-c", "kill -SEGV $$"}, {}, 10).end, CommandRun::End::Signal);
  EXPECT_EQ(run_command({"sleep", "60"}, {}, 0.2).end, CommandRun::End::Hung);
  EXPECT_EQ(run_command({"/nowhere/at-all"}, {}, 10).end, CommandRun::End::NotStarted);
  EXPECT_EQ(run_command({"sh", "-c", "echo $LATHE_X"}, {{"LATHE_X", "7"}}, 10).output, "7\n");
}

TEST(Investigate, ACommandThatFailsWhateverLatheDoesHasNoKnownCause) {
  LocalLaboratory laboratory;
  dev::InvestigationLimits limits;
  const dev::Finding finding = investigate_command({"sh", "-c", "exit 1"}, laboratory, limits, {});
  EXPECT_EQ(finding.kind, "") << said(finding);
  EXPECT_NE(finding.summary.find("why is not known"), std::string::npos) << finding.summary;
  // One that sharing memory makes fail.
  const dev::Finding plan =
      investigate_command({"sh", "-c", "test \"$LATHE_REUSE\" = 0"}, laboratory, limits, {});
  EXPECT_EQ(plan.kind, "memory plan") << said(plan);
  EXPECT_EQ(plan.way_out, "LATHE_REUSE=0");
  EXPECT_TRUE(plan.way_out_verified);
  const dev::Finding fine = investigate_command({"true"}, laboratory, limits, {});
  EXPECT_EQ(fine.summary, "the command does not fail here");
}

}  // namespace
}  // namespace lathe::investigate
