// LATHE_CHECK: faults planted after each step of the code generator are found when the kernel is first used,
// and a kernel that is wrong with its options is replaced by one that is right.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/fallback.h"
#include "engine/kernel_check.h"
#include "engine/sample_positions.h"
#include "engine/size_kinds.h"
#include "engine/store_elements.h"
#include "graphs.h"
#include "ir/launch.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "pipeline/spoil.h"

namespace lathe::engine {
namespace {

using test::floats;
using test::numbers;
using test::read;

// Whether options left copies in registers: faults of theirs are not in the kernel without them.
bool has_options(std::span<const Node> order) {
  return std::ranges::any_of(order,
                             [](Node n) { return n.is(Op::Range) && range_kind(n) == RangeKind::Upcast; });
}
NodeMap<Node> wrong_with_options(std::span<const Node> order) {
  return has_options(order) ? negate_operand(order) : NodeMap<Node>();
}

// The fault that changes what one step gives, and counts how often it could.
class PlantedFault : public StepSink {
 public:
  PlantedFault(std::string step, Spoil mutation, int& planted)
      : step_(std::move(step)), mutation_(mutation), planted_(planted) {}
  ~PlantedFault() override { drop_caches(); }  // kernels with the fault are known by keys that do not name it

  void kernel(const StepInfo& step, Node& kernel) override {
    if (step.name == step_) planted_ += spoil(kernel, mutation_);
  }
  void program(const StepInfo& step, Program& program) override {
    if (step.name == step_) planted_ += spoil(program, mutation_);
  }

 private:
  std::string step_;
  Spoil mutation_;
  int& planted_;
  const ExperimentScope scope_{{.sink = this}};
};

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, std::size_t m,
                           std::size_t k, std::size_t n) {
  std::vector<float> out(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t l = 0; l < k; ++l) out[i * n + j] += a[i * k + l] * b[l * n + j];
  return out;
}

// The names of the steps that compiles take, in order.
std::vector<std::string> steps_of(std::span<const NodeRef> graphs) {
  struct Names : StepSink {
    void kernel(const StepInfo& step, Node&) override { add(step); }
    void program(const StepInfo& step, Program&) override { add(step); }
    void add(const StepInfo& step) {
      if (std::ranges::find(all, step.name) == all.end()) all.emplace_back(step.name);
    }
    std::vector<std::string> all;
  } names;
  drop_caches();
  const ExperimentScope scope({.sink = &names});
  for (const NodeRef& graph : graphs) test::realize(graph);
  drop_caches();
  return names.all;
}

// All but the first two, which are over tensors.
std::size_t kernel_steps_of_scheduling() { return schedule_steps().size() - 2; }

// Sums of products, a sum along rows with what follows it, and plain arithmetic, at sizes that no vector
// divides.
std::vector<NodeRef> graphs() {
  const NodeRef a = floats(numbers(33 * 29, 1)), b = floats(numbers(29 * 47, 2)),
                c = floats(numbers(33 * 29, 3));
  const Node rows =
      test::grown(test::shaped(test::sum(test::shaped(c.node(), {33, 29}), {1}), {33, 1}), {33, 29});
  return {test::matmul(a.node(), test::shaped(b.node(), {29, 47}), 33, 29, 47),
          test::shaped(a.node(), {33, 29}) - rows, a.node() * c.node() + a.node()};
}

bool near(const std::vector<float>& x, const std::vector<float>& y) {
  return std::ranges::equal(x, y, [](float a, float b) { return std::abs(a - b) <= 1e-4f; });
}

TEST(FirstUse, AFaultPlantedAfterAnyStepOfTheCodeGeneratorIsCaught) {
  const Scope scope;
  std::vector<std::vector<float>> right;
  for (const NodeRef& graph : graphs()) right.push_back(test::read(test::realize(graph)));
  const FlagScope strict(Flag::Check, "strict");
  std::vector<std::string> steps{"guard_unproved"};
  for (const std::vector<StepInfo>& rows : {option_steps(), lower_steps()})
    for (const StepInfo& row : rows) steps.emplace_back(row.name);
  const std::vector<std::string> taken = steps_of(graphs());
  for (const std::string& step : steps)
    EXPECT_NE(std::ranges::find(taken, step), taken.end()) << step << " is listed and not taken";
  EXPECT_EQ(taken.size(), steps.size() + kernel_steps_of_scheduling())
      << "a compile takes other steps than those of the lists";
  for (const std::string& step : steps)
    for (const Spoil mutation : {negate_operand, shorten_loop}) {
      int planted = 0, caught = 0;
      {
        drop_caches();
        const PlantedFault fault(step, mutation, planted);
        const std::vector<NodeRef> all = graphs();
        for (std::size_t i = 0; i < all.size(); ++i) {
          const int before = planted;
          try {
            const NodeRef result = test::realize(all[i]);
            // A step of a loop whose elements are all masked may be missing.
            EXPECT_TRUE(planted == before || near(test::read(result), right[i]))
                << step << ": a wrong result went through";
          } catch (const InternalError& error) {
            EXPECT_GT(planted, before) << error.what();
            ++caught;
          }
        }
      }
      if (mutation == negate_operand) {
        EXPECT_GT(planted, 0) << "nothing was planted after " << step;
      }
      EXPECT_EQ(caught > 0, planted > 0) << step;
    }
}

TEST(FirstUse, AKernelThatIsWrongWithItsOptionsIsReplacedAndTheResultIsRight) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  char pattern[] = "/tmp/lathe-check-test-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  const FlagScope cache(Flag::Cache, folder + "/cache");
  const std::vector<float> a = numbers(33 * 29, 1), b = numbers(29 * 47, 2);
  const auto multiply = [&] {
    const NodeRef left = floats(a), right = floats(b);
    return read(test::realize(test::matmul(left.node(), test::shaped(right.node(), {29, 47}), 33, 29, 47)));
  };
  drop_caches();
  std::string printed;
  int planted = 0;
  {
    const PlantedFault fault("option_ranges", wrong_with_options, planted);
    testing::internal::CaptureStderr();
    EXPECT_EQ(multiply(), product(a, b, 33, 29, 47));
    EXPECT_EQ(multiply(), product(a, b, 33, 29, 47)) << "the replacement is not what runs";
    printed = testing::internal::GetCapturedStderr();
  }
  EXPECT_GT(planted, 0);
  EXPECT_NE(printed.find("check: warning: kernel"), std::string::npos) << printed;
  EXPECT_NE(printed.find("it now runs without options"), std::string::npos) << printed;
  // The file about it is the user's alone.
  const std::size_t at = printed.find(folder);
  ASSERT_NE(at, std::string::npos) << printed;
  const std::string path = printed.substr(at, printed.find('\n', at) - at);
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0) << path;
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const std::string about = *read_file(path);
  EXPECT_NE(about.find("# result 0 0 is"), std::string::npos);
  EXPECT_NE(about.find("# read 1 0 ="), std::string::npos);
  EXPECT_EQ(about.find("# read 1 500 ="), std::string::npos) << "more than the elements that were read";

  // The next process finds the replacement and neither compiles nor checks.
  drop_caches();
  reset_counters();
  const CheckCounts before = check_counts();
  EXPECT_EQ(multiply(), product(a, b, 33, 29, 47));
  EXPECT_EQ(counters().compiles, 0u);
  EXPECT_EQ(check_counts().passed, before.passed);
  // Where a difference is an error, nothing stands for another kernel.
  drop_caches();
  const FlagScope strict(Flag::Check, "strict");
  reset_counters();
  EXPECT_EQ(multiply(), product(a, b, 33, 29, 47));
  EXPECT_EQ(counters().compiles, 1u);
  drop_caches();
  std::filesystem::remove_all(folder);
}

TEST(FirstUse, AKernelThatIsWrongWithoutOptionsTooIsAnError) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  drop_caches();
  int planted = 0;
  const PlantedFault fault("lower_reduce", negate_operand, planted);
  const NodeRef left = floats(numbers(33 * 29, 1)), right = floats(numbers(29 * 47, 2));
  try {
    test::realize(test::matmul(left.node(), test::shaped(right.node(), {29, 47}), 33, 29, 47));
    FAIL() << "a wrong result went through";
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("it also does with other options and with none"), std::string::npos) << text;
  }
}

TEST(FirstUse, AnUpdateInPlaceIsRepeatedOnWhatItFound) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  drop_caches();
  int planted = 0;
  const PlantedFault fault("option_ranges", wrong_with_options, planted);
  std::vector<float> weights = numbers(1000, 1), step = numbers(1000, 5);
  const NodeRef memory = floats(weights), change = floats(step);
  test::realize(test::assign(memory, memory.node() + change.node()));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += step[i];
  EXPECT_EQ(read(memory), weights);
  EXPECT_GT(planted, 0);
}

// What cannot be kept is gone: the file about the kernel does not show what it was overwritten with.
TEST(FirstUse, InputsThatWereWrittenOverAndNotKeptAreNotShown) {
  const Scope scope;
  const FlagScope strict(Flag::Check, "strict");
  char pattern[] = "/tmp/lathe-check-test-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  const FlagScope save(Flag::Save, folder);
  drop_caches();
  int planted = 0;
  const PlantedFault fault("expand", negate_operand, planted);
  std::vector<float> values((std::size_t{65} << 20) / sizeof(float), 2);
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = 4;
  const NodeRef memory = floats(values);
  EXPECT_THROW(test::realize(test::assign(memory, memory.node() * memory.node() + memory.node())),
               InternalError);
  EXPECT_GT(planted, 0);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("wrong_")) continue;
    ++files;
    EXPECT_EQ(read_file(entry.path().string())->find("# read"), std::string::npos);
  }
  EXPECT_EQ(files, 1);
  std::filesystem::remove_all(folder);
}

// What is stored is off by a thousand.
NodeMap<Node> far_off(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order)
    if (n.is(Op::Store) && n.arg(2).dtype().is_float())
      map[n] =
          store(n.arg(0), n.arg(1), n.arg(2) + splat(number(dtypes::Float32, 1000), n.arg(2).dtype().lanes));
  return map;
}

// Sums that cancel have bounds that nearly anything is within: a wrong kernel is beyond them, and of another
// nothing is known.
TEST(FirstUse, AKernelOfWhichNothingAgreesForCertainReplacesNoOther) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  drop_caches();
  int planted = 0;
  class FirstKernelOnly : public PlantedFault {
   public:
    explicit FirstKernelOnly(int& planted)
        : PlantedFault("lower_reduce", far_off, planted), planted_(planted) {}
    void kernel(const StepInfo& step, Node& kernel) override {
      if (planted_ == 0) PlantedFault::kernel(step, kernel);
    }

   private:
    int& planted_;
  };
  const FirstKernelOnly fault(planted);
  std::vector<float> values(40 * 2000);
  for (std::size_t i = 0; i < values.size(); i += 2)
    values[i + 1] = -(values[i] = static_cast<float>(i % 991) / 997);
  const NodeRef a = floats(values);
  EXPECT_THROW(test::realize(test::sum(test::shaped(a.node(), {40, 2000}), {1})), InternalError);
  EXPECT_EQ(planted, 1);
}

TEST(FirstUse, AnAttemptThatCannotBeMadeIsNotTheLast) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  drop_caches();
  int planted = 0, refused = 0;
  class RefusesOptionsLater : public PlantedFault {
   public:
    RefusesOptionsLater(int& planted, int& refused)
        : PlantedFault("option_ranges", wrong_with_options, planted), refused_(refused) {}
    void kernel(const StepInfo& step, Node& kernel) override {
      if (check_counts().replaced > before_ && has_options(toposort(kernel))) {
        ++refused_;
        throw InternalError("test", "malformed");
      }
      PlantedFault::kernel(step, kernel);
    }

   private:
    int& refused_;
    std::uint64_t before_ = check_counts().replaced;
  };
  const RefusesOptionsLater fault(planted, refused);
  const std::vector<float> a = numbers(33 * 29, 1), b = numbers(29 * 47, 2);
  const NodeRef left = floats(a), right = floats(b);
  const Node graph = test::matmul(left.node(), test::shaped(right.node(), {29, 47}), 33, 29, 47);
  EXPECT_EQ(read(test::realize(graph)), product(a, b, 33, 29, 47));
  EXPECT_GT(planted, 0);
  EXPECT_GT(refused, 0);
}

// Indices are looked at as if there were one row to choose.
NodeMap<Node> wrong_check(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order) {
    if (!n.is(Op::Check) || !has_options(order)) continue;
    std::vector<Node> args(n.args().begin(), n.args().end());
    args[1] = number(args[1].dtype(), 1);
    map[n] = intern(n.op(), n.dtype(), args, n.attr());
  }
  return map;
}

TEST(FirstUse, AnIndexThatAWrongKernelReportsByMistakeIsNotTold) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  drop_caches();
  int planted = 0;
  const PlantedFault fault("option_ranges", wrong_check, planted);
  const std::uint64_t before = check_counts().replaced;
  std::vector<std::int32_t> rows(400);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i * 7 % 50);
  const NodeRef index = buffer_from_host(dtypes::Int32, 400, "CPU", rows.data()), x = floats(numbers(50, 1));
  const Node checked = check(index, int_const(dtypes::Int32, 50), bool_const(true), "gather");
  const std::vector<float> got = read(test::realize(take(x, checked) * number(dtypes::Float32, 2)));
  EXPECT_NO_THROW(synchronize());
  EXPECT_GT(planted, 0);
  EXPECT_EQ(check_counts().replaced, before + 1);
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(got[i], 2 * numbers(50, 1)[static_cast<std::size_t>(rows[i])]);
}

// Stores that a gate closes are done all the same.
NodeMap<Node> no_gate(std::span<const Node> order) {
  NodeMap<Node> map;
  if (!has_options(order)) return map;
  for (Node n : order)
    if (n.is(Op::Store) && n.arg_count() > 3) map[n] = store(n.arg(0), n.arg(1), n.arg(2));
  return map;
}

TEST(FirstUse, WhatAClosedGateLeavesAloneIsCheckedAndRestored) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  drop_caches();
  const Node r = range(index_const(300), 0, RangeKind::Global);
  const Node gate = less(floor_mod(r, index_const(3)), index_const(2));
  const Node out = param(dtypes::Float32, 0, 300), in = param(dtypes::Float32, 1, 300);
  const Node kernel = sink(std::vector<Node>{end(store(out, r, load(in, r), gate), std::vector<Node>{r})});
  std::vector<float> want = numbers(300, 1);
  const std::vector<float> other = numbers(300, 4);
  const NodeRef memory = floats(want), source = floats(other);
  for (std::size_t i = 0; i < want.size(); ++i)
    if (i % 3 < 2) want[i] = other[i];
  int planted = 0;
  const PlantedFault fault("option_ranges", no_gate, planted);
  const Node slots[] = {memory, source};
  const Node effect = launch({"gated", "[UPCAST(0, 4)]", kernel}, slots);
  const std::uint64_t before = check_counts().replaced;
  test::realize(after(memory, std::span(&effect, 1)));
  EXPECT_EQ(read(memory), want);
  EXPECT_GT(planted, 0);
  EXPECT_EQ(check_counts().replaced, before + 1);
}

TEST(FirstUse, APassedKernelIsNotCheckedAgain) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  drop_caches();
  const CheckCounts before = check_counts();
  for (int i = 0; i < 5; ++i) {
    const NodeRef a = floats(numbers(50, i));
    test::realize(a.node() * a.node() + number(dtypes::Float32, 3));
  }
  EXPECT_EQ(check_counts().passed, before.passed + 1);
}

// Several lanes of REF share a long sum, so that two of them are no longer beyond what a first check may
// cost.
TEST(FirstUse, OutputsOfALongReduceAreComparedBeforeTheyAreUsed) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  drop_caches();
  constexpr std::int64_t kLong = 150'000;
  const NodeRef a = floats(numbers(4 * kLong, 1)), b = floats(numbers(kLong * 4, 2));
  const CheckCounts before = check_counts();
  test::realize(test::matmul(a.node(), test::shaped(b.node(), {kLong, 4}), 4, kLong, 4));
  EXPECT_GT(check_counts().compared, before.compared);
  EXPECT_EQ(check_counts().unchecked, before.unchecked);
}

TEST(FirstUse, OffComparesNothing) {
  const Scope scope;
  const FlagScope off(Flag::Check, "off");
  drop_caches();
  int planted = 0;
  const PlantedFault fault("lower_reduce", negate_operand, planted);
  const NodeRef a = floats(numbers(50, 1));
  const CheckCounts before = check_counts();
  test::realize(a.node() * a.node() + a.node());
  EXPECT_EQ(check_counts().passed, before.passed);
}

// Zeros agree with almost everything: the kernel is looked at again, and at last with other inputs.
TEST(FirstUse, AFaultThatZerosHideIsFoundOnMadeUpInputs) {
  const Scope scope;
  const FlagScope strict(Flag::Check, "strict");
  drop_caches();
  int planted = 0;
  const PlantedFault fault("expand", negate_operand, planted);
  int runs = 0;
  const auto multiply = [] {
    const NodeRef zeros = floats(std::vector<float>(33 * 29, 0)),
                  other = floats(std::vector<float>(29 * 47, 0));
    test::realize(test::matmul(zeros.node(), test::shaped(other.node(), {29, 47}), 33, 29, 47));
  };
  EXPECT_THROW(for (; runs < 10; ++runs) multiply(), InternalError);
  EXPECT_GT(planted, 0);
  EXPECT_GT(runs, 0) << "zeros said enough";
}

// What says nothing of a kernel is no verdict: it is looked at when other inputs come.
template <class Run>
void expect_a_fault_found_later(Run run, std::span<const float> silent, int silent_runs, float telling) {
  const FlagScope strict(Flag::Check, "strict");
  drop_caches();
  int planted = 0;
  const PlantedFault fault("expand", negate_operand, planted);
  for (int i = 0; i < silent_runs; ++i)
    EXPECT_NO_THROW(run(silent[static_cast<std::size_t>(i) % silent.size()]));
  EXPECT_GT(planted, 0);
  EXPECT_THROW(for (int i = 0; i < 4; ++i) run(telling), InternalError);
}

TEST(FirstUse, AKernelTooLargeForMadeUpInputsThatSawOnlyZerosIsLookedAtWhenOthersCome) {
  const Scope scope;
  const auto run = [](float first) {
    std::vector<float> values(3'000'000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = first * static_cast<float>(1 + i % 7);
    const NodeRef a = floats(values), b = floats(values);
    test::realize(a.node() * b.node() + a.node());
  };
  const float zero[] = {0};
  expect_a_fault_found_later(run, zero, 4, 1);
}

TEST(FirstUse, AKernelThatIsConstantOnMadeUpInputsTooIsLookedAtWhenOthersCome) {
  const Scope scope;
  const auto run = [](float scale) {
    std::vector<float> values = numbers(500, 3);
    for (float& v : values) v *= scale;
    const NodeRef a = floats(values), b = floats(numbers(500, 4));
    test::realize(max(a.node() * b.node(), number(dtypes::Float32, 5)));
  };
  const float small[] = {0, 1e-3f};
  expect_a_fault_found_later(run, small, 6, 100);
}

TEST(FirstUse, NumbersThatAreNotFiniteAreNoEvidence) {
  const Scope scope;
  const auto run = [](float first) {
    std::vector<float> values = numbers(300, 3);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::isnan(first)) values[i] = i % 2 == 0 ? first : 0;
    const NodeRef a = floats(values);
    test::realize(a.node() * number(dtypes::Float32, 0.5) + a.node());
  };
  const float nan[] = {NAN};
  expect_a_fault_found_later(run, nan, 1, 1);
}

TEST(FirstUse, AllComparesAndLeavesTheRecordOfAKernelAlone) {
  const Scope scope;
  char pattern[] = "/tmp/lathe-check-test-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  const FlagScope cache(Flag::Cache, folder + "/cache");
  const auto run = [] {
    const NodeRef a = floats(numbers(700, 1));
    test::realize(a.node() * a.node() + number(dtypes::Float32, 7));
  };
  drop_caches();
  {
    const FlagScope all(Flag::Check, "all");
    const CheckCounts before = check_counts();
    for (int i = 0; i < 3; ++i) run();
    EXPECT_EQ(check_counts().passed, before.passed + 3);
  }
  drop_caches();
  const FlagScope first(Flag::Check, "first");
  const CheckCounts before = check_counts();
  run();
  EXPECT_EQ(check_counts().passed, before.passed + 1) << "positions that were never compared count as passed";
  drop_caches();
  std::filesystem::remove_all(folder);
}

TEST(FirstUse, AKernelWhoseStoresWriteOneBufferIsCountedAndNotTriedForEver) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  drop_caches();
  const Node out = param(dtypes::Float32, 0, 300), in = param(dtypes::Float32, 1, 150);
  std::vector<Node> effects;
  for (const std::int64_t half : {0, 1}) {
    const Node r = range(index_const(150), half, RangeKind::Global);
    effects.push_back(end(store(out, r + index_const(150 * half), load(in, r)), std::vector<Node>{r}));
  }
  const Node kernel = sink(effects);
  const CheckCounts before = check_counts();
  for (int i = 0; i < 3; ++i) {
    const NodeRef memory = floats(numbers(300, 1)), source = floats(numbers(150, 2));
    const Node slots[] = {memory, source};
    const Node effect = launch({"halves", "", kernel}, slots);
    test::realize(after(memory, std::span(&effect, 1)));
  }
  const CheckCounts now = check_counts();
  EXPECT_EQ(now.unchecked + now.passed, before.unchecked + before.passed + 1);
}

TEST(FirstUse, AttemptsKeepWhatLowersTheOrderOfTheWorkAndEndWithoutOptions) {
  const Scope scope;
  MadeKernel made;
  const Node out = param(dtypes::Float32, 0, 64 * 64), input = param(dtypes::Float32, 1, 64 * 64);
  const Node i = range(index_const(64), 0, RangeKind::Global),
             j = range(index_const(64), 1, RangeKind::Global);
  const Node k = range(index_const(64), 2, RangeKind::Reduce);
  const Node row = i * index_const(64);
  const Node element = where(less(k, j + index_const(1)), load(input, row + k), number(dtypes::Float32, 0));
  made.ast = sink(std::vector<Node>{end(
      store(out, row + j, reduce_ranges(Op::Add, element, std::vector<Node>{k})), std::vector<Node>{i, j})});
  const Target target = named_target("x86-64-v3");
  made.options = choose_options(made.ast, target);
  made.options_from = "heuristic";
  const std::vector<Attempt> all = attempts(made, target);
  ASSERT_GE(all.size(), 2u);
  EXPECT_TRUE(all.back().options.empty());
  for (std::size_t a = 0; a + 1 < all.size(); ++a) {
    const auto tile = [](const Opt& o) { return o.op == OptOp::TILE; };
    EXPECT_TRUE(std::ranges::any_of(all[a].options, tile))
        << all[a].what << ": " << to_string(all[a].options);
  }
}

}  // namespace
}  // namespace lathe::engine
