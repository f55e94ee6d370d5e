// The investigator on faults of which it knows nothing: rules that are planted, and steps that are spoiled,
// in this process. Each has to be named, with a small kernel that shows it.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/engine.h"
#include "engine/inputs_file.h"
#include "investigate/command.h"
#include "investigate/graph_investigation.h"
#include "investigate/judges.h"
#include "investigate/kernel_investigation.h"
#include "investigate/program_investigation.h"
#include "investigate/rule_check.h"
#include "investigate/said.h"
#include "investigate/shrink.h"
#include "investigate/worker.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "lathe/dev/investigate_kernel.h"
#include "pipeline/spoil.h"
#include "rewrite/rewriter.h"
#include "test_folders.h"

namespace lathe::investigate {
namespace {

using dev::Verdict;

using test::Folder;
using test::said;

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

constexpr Pat x = any(0), y = any(1);
constexpr Rule kUndo[] = {{"there", x* y, x + y}, {"and-back", x + y, x* y}};

TEST(Investigate, RulesThatUndoEachOtherAreNamed) {
  const Scope scope;
  const Folder folder;
  const RuleSet set("planted", {{"planted", kUndo, [](Node n) { return n.dtype().is_float(); }}});
  const engine::ExperimentScope experiment({.planted = &set});
  const Node i = range(index_const(9), 0, RangeKind::Global);
  const Node value = load(param(dtypes::Float32, 1, 9), i) * load(param(dtypes::Float32, 2, 9), i);
  const Node effect = end(store(param(dtypes::Float32, 0, 9), i, value), {&i, 1});
  Subject subject;
  subject.name = "products";
  subject.kernel = sink({&effect, 1});
  const dev::Finding finding = found(subject, folder.path);
  EXPECT_EQ(finding.kind, "rule") << said(finding);
  EXPECT_NE(finding.cause.find("there"), std::string::npos) << said(finding);
  EXPECT_NE(finding.cause.find("and-back"), std::string::npos) << said(finding);
}

// Puts something else in the place of what one step gives.
struct Spoiled : StepSink {
  explicit Spoiled(std::string name) : step(std::move(name)) {}
  void kernel(const StepInfo& from, Node& kernel) override {
    if (from.name == step) spoil(kernel, negate_operand);
  }
  void program(const StepInfo& from, Program& program) override {
    if (from.name == step) spoil(program, negate_operand);
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

// Only what an option made is wrong: the axis of a range that it upcasts.
struct SpoiledCopies : StepSink {
  void kernel(const StepInfo& from, Node& kernel) override {
    const std::vector<Node> all = toposort(kernel);
    const bool copies = std::ranges::any_of(
        all, [](Node n) { return n.is(Op::Range) && range_kind(n) == RangeKind::Upcast; });
    if (std::string_view(from.name) == "option_ranges" && copies) spoil(kernel, negate_operand);
  }
};

TEST(Investigate, AnOptionThatIsAppliedWronglyIsNamed) {
  const Scope scope;
  const Folder folder;
  SpoiledCopies spoiled;
  const engine::ExperimentScope experiment({.sink = &spoiled});
  Subject subject = sums(13, 22);
  subject.options = parse_opts("UPCAST(0, 4) UNROLL(0, 2)");
  const dev::Finding finding = found(subject, folder.path);
  EXPECT_EQ(finding.kind, "option") << said(finding);
  EXPECT_TRUE(finding.cause.starts_with("UPCAST(0")) << said(finding);
  EXPECT_TRUE(finding.way_out_verified);
}

// ---- the judges of `lathe faults --judges`

bool is_among(const std::vector<Opinion>& opinions, const Judge& judge) {
  return std::ranges::any_of(opinions, [&](const Opinion& o) { return o.judge == judge.name; });
}

TEST(Judges, SayNothingOfARightKernel) {
  const Scope scope;
  for (const char* options : {"", "UPCAST(0, 3) UNROLL(0, 5)"}) {
    Subject subject = sums(13, 22);
    subject.options = parse_opts(options);
    LocalLaboratory laboratory;
    for (const Opinion& opinion : laboratory.judges(subject, {}))
      ADD_FAILURE() << options << ": " << opinion.judge << ": " << opinion.says;
  }
}

TEST(Judges, EachNoticesWhatItIsThereFor) {
  const Scope scope;
  LocalLaboratory laboratory;
  Subject subject = sums(13, 22);
  subject.options = parse_opts("UPCAST(0, 4)");  // uneven: there is a gate
  struct Row {
    Spoil change;
    const Judge& judge;
  };
  for (const auto& [change, judge] : {Row{negate_operand, kReference}, Row{negate_operand, kFirstUse},
                                      Row{stop_index, kFirstUse}, Row{drop_gate, kBoundsProof}}) {
    struct Changed : StepSink {
      void kernel(const StepInfo& from, Node& kernel) override {
        if (std::string_view(from.name) == "option_ranges") spoil(kernel, change);
      }
      Spoil change = nullptr;
    } changed;
    changed.change = change;
    engine::drop_caches();
    const engine::ExperimentScope experiment({.sink = &changed});
    EXPECT_TRUE(is_among(laboratory.judges(subject, {}), judge)) << judge.name;
  }
  engine::drop_caches();
  // A node that has no place in a kernel.
  struct Malformed : StepSink {
    void kernel(const StepInfo& from, Node& kernel) override {
      if (std::string_view(from.name) != "expand") return;
      std::vector<Node> effects(kernel.args().begin(), kernel.args().end());
      effects.push_back(range(index_const(3), 77, RangeKind::Loop));
      kernel = sink(effects);
    }
  } malformed;
  const engine::ExperimentScope experiment({.sink = &malformed});
  EXPECT_TRUE(is_among(laboratory.judges(subject, {}), kVerifier));
  engine::drop_caches();
}

// out[i] = table[numbers[i]], where what a number names may be outside.
Subject look_up(std::int64_t rows, std::int64_t table) {
  const Node i = range(index_const(rows), 0, RangeKind::Global);
  const Node number = load(param(dtypes::Int32, 2, rows), i);
  const Node inside = check(number, int_const(dtypes::Int32, table), bool_const(true), "gather");
  const Node value = load(param(dtypes::Float32, 1, table), cast(inside, dtypes::Index));
  const Node effect = end(store(param(dtypes::Float32, 0, rows), i, value), {&i, 1});
  Subject subject;
  subject.name = "look_up";
  subject.kernel = sink({&effect, 1});
  return subject;
}

// Every value stays right: only what the kernel reports is wrong.
struct LooksOutside : StepSink {
  explicit LooksOutside(std::string name) : step(std::move(name)) {}
  void kernel(const StepInfo& from, Node& kernel) override {
    if (from.name != step) return;
    NodeMap<Node> to;
    for (Node n : toposort(kernel))
      if (n.is(Op::Check)) {
        const Node beyond = check(n.arg(0) + n.arg(1), n.arg(1), n.arg(2), n.text());
        to[n] = where(less(beyond, int_const(n.dtype(), 0)), n, int_const(n.dtype(), 0));
      }
    kernel = substitute(kernel, to);
  }
  std::string step;
};

TEST(Investigate, AStepThatReportsAnIndexOutsideIsNamedAndNotTheDevice) {
  const Scope scope;
  const Folder folder;
  EXPECT_EQ(found(look_up(12, 7), folder.path).kind, "");
  for (const char* step : {"option_ranges", "lower_reduce"}) {
    LooksOutside outside(step);
    const engine::ExperimentScope experiment({.sink = &outside});
    const dev::Finding finding = found(look_up(12, 7), folder.path);
    EXPECT_EQ(finding.kind, "step") << said(finding);
    EXPECT_EQ(finding.cause, step) << said(finding);
    EXPECT_NE(finding.summary.find("outside"), std::string::npos) << finding.summary;
  }
}

TEST(Investigate, InputsThatNameWhatIsOutsideAccuseNobody) {
  const Scope scope;
  const Folder folder;
  Subject subject = look_up(12, 7);
  subject.known = {{2, 3, 0, 99}};
  const dev::Finding finding = found(subject, folder.path);
  EXPECT_EQ(finding.kind, "") << said(finding);
  EXPECT_EQ(run_steps_on_ref(subject, {}).outcome, Outcome::Unknown);
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
  const FirstFailing first = [&](std::span<const Subject> candidates) {
    return static_cast<std::size_t>(std::ranges::find_if(candidates, multiplies) - candidates.begin());
  };
  for (const std::size_t at_a_time : {1, 3, 16}) {
    const Subject small = shrink(subject, first, at_a_time);
    EXPECT_TRUE(multiplies(small));
    EXPECT_TRUE(small.options.empty());
    EXPECT_LE(node_count(small.kernel), 4);
    EXPECT_EQ(small.kernel->arg_count(), 1u);
  }
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

// Spoils loads of one number alone, so that hardly any made-up inputs show it.
struct DislikesANumber : StepSink {
  void kernel(const StepInfo& from, Node& kernel) override {
    if (std::string_view(from.name) != "expand") return;
    NodeMap<Node> to;
    for (Node n : toposort(kernel))
      if (n.is(Op::Load) && n.dtype() == dtypes::Float32 && n.arg(0).is(Op::Param)) {
        const Node number = float_const(dtypes::Float32, 1234.5);
        to[n] = where(equal(n, number), float_const(dtypes::Float32, 7), n);
      }
    kernel = substitute(kernel, to);
  }
};

TEST(Investigate, AKernelThatIsWrongOnlyOnItsOwnInputsIsInvestigatedWithThose) {
  const Scope scope;
  const Folder folder;
  DislikesANumber step;
  const engine::ExperimentScope experiment({.sink = &step});
  Subject subject = sums(13, 22);
  EXPECT_EQ(found(subject, folder.path).kind, "");
  std::vector<reference::Array> own = contents(subject);
  own[3].set(5, {0, 1234.5});
  ASSERT_TRUE(engine::write_inputs(folder.path + "/own.data", {own, {}}));
  subject = with_inputs(subject, folder.path + "/own.data");
  EXPECT_EQ(contents(subject), own);
  const dev::Finding finding = found(subject, folder.path);
  EXPECT_EQ(finding.kind, "step") << said(finding);
  EXPECT_EQ(finding.cause, "expand") << said(finding);
  EXPECT_LE(finding.repro_nodes, 10);
  // The repro has what it needs beside it, wherever both are moved.
  const Folder elsewhere;
  std::filesystem::copy(folder.path, elsewhere.path, std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(folder.path);
  const std::string name = std::filesystem::path(finding.repro).filename().string();
  EXPECT_EQ(run_on_device(read_subject(elsewhere.path + "/" + name), {}, 1).outcome, Outcome::Wrong);
}

TEST(Investigate, InputsAreReadAsTheyWereWrittenAndDamagedOnesRefused) {
  const Folder folder;
  const std::string path = folder.path + "/x.data";
  engine::SavedInputs inputs;
  inputs.buffers.push_back(reference::Array::of(dtypes::Float32, std::vector<double>{1.5, -0.0, INFINITY}));
  inputs.buffers.emplace_back(dtypes::Int8, 0);
  inputs.buffers.push_back(reference::Array::of(dtypes::BFloat16, std::vector<double>{3, 10, 10}));
  inputs.values = {{"n", -7}};
  ASSERT_TRUE(engine::write_inputs(path, inputs));
  const engine::SavedInputs again = engine::read_inputs(path);
  EXPECT_EQ(again.buffers, inputs.buffers);
  EXPECT_EQ(again.values, inputs.values);
  const std::string bytes = *read_file(path);
  for (const std::string& wrong :
       {bytes.substr(0, bytes.size() - 1), bytes + "x", std::string("lathe inputs 1\n"),
        std::string("lathe inputs 1\nnothing 3\n\n"), std::string()}) {
    write_file_atomic(path, wrong);
    EXPECT_THROW(engine::read_inputs(path), UserError);
  }
  EXPECT_THROW(engine::read_inputs(folder.path + "/none.data"), UserError);
}

TEST(Investigate, ReprosAreProgramsToo) {
  const Scope scope;
  const Folder folder;
  Spoiled spoiled("expand");
  const engine::ExperimentScope experiment({.sink = &spoiled});
  const dev::Finding finding = found(sums(5, 6), folder.path);
  ASSERT_NE(finding.repro, "") << said(finding);
  for (const char* suffix : {".cpp", ".py", ".data"})
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(finding.repro).replace_extension(suffix)))
        << suffix;
  if (!find_program("c++").empty()) {
    const std::string source = std::filesystem::path(finding.repro).replace_extension(".cpp").string();
    const CommandRun compiled = run_command(
        {"c++", "-std=c++20", "-fsyntax-only", "-I", LATHE_SOURCE_DIR "/include", source}, {}, 120);
    EXPECT_TRUE(compiled.ok()) << compiled.errors;
  }
  // The text inside of them fails by itself, without the file of inputs.
  const std::string program =
      *read_file(std::filesystem::path(finding.repro).replace_extension(".py").string());
  const std::size_t begin = program.find("r\"\"\"") + 4, end = program.find("\"\"\"\n", begin);
  const dev::TextCheck check = dev::check_text(program.substr(begin, end - begin), "/nowhere");
  EXPECT_TRUE(check.failed) << check.outcome << ": " << check.text;
  EXPECT_FALSE(finding.before.empty());
  EXPECT_FALSE(finding.difference.empty());
}

TEST(Investigate, WorkersSideBySideFindWhatOneFinds) {
  if (find_program("lathe-worker").empty()) GTEST_SKIP() << "lathe-worker is not built";
  const Scope scope;
  WorkerLaboratory workers(3);
  EXPECT_EQ(workers.side_by_side(), 3u);
  std::vector<Outcome> outcomes(7, Outcome::Unknown);
  const Subject right = sums(5, 6);
  Subject refused = right;
  refused.options = parse_opts("UPCAST(9, 4)");
  workers.for_each(outcomes.size(), [&](Laboratory& laboratory, std::size_t i) {
    const Scope inside;
    outcomes[i] = laboratory.device(i % 3 == 0 ? refused : right, {}, 1).outcome;
  });
  for (std::size_t i = 0; i < outcomes.size(); ++i)
    EXPECT_EQ(outcomes[i], i % 3 == 0 ? Outcome::Refused : Outcome::Right) << i;
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
