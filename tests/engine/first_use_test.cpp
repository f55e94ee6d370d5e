// LATHE_CHECK: faults planted after each step of the code generator are found when the kernel is first used,
// and a kernel that is wrong with its options is replaced by one that is right.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/fallback.h"
#include "engine/kernel_check.h"
#include "engine/prepared.h"
#include "engine/sample_positions.h"
#include "graphs.h"
#include "ir/launch.h"
#include "ir/ranges.h"
#include "ir/text.h"

namespace lathe::engine {
namespace {

using test::floats;
using test::read;

bool is_float(Node n) { return n.dtype().is_float(); }

// x + y becomes x - y, x*y + z becomes -x*y + z: the first operation on two floats.
NodeMap<Node> wrong_operand(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order) {
    if (!is_scalar_op(n.op()) || n.arg_count() < 2 || !is_float(n) || !is_float(n.arg(0)) ||
        !is_float(n.arg(1)))
      continue;
    std::vector<Node> args(n.args().begin(), n.args().end());
    args[1] = apply(Op::Neg, args[1]);
    map[n] = rebuild(n, args);
    break;
  }
  return map;
}

// One loop takes a step less.
NodeMap<Node> step_less(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order) {
    if (!n.is(Op::Range) || !n.arg(0).is_const() || n.arg(0).const_int() < 2) continue;
    std::vector<Node> args(n.args().begin(), n.args().end());
    args[0] = number(args[0].dtype(), static_cast<double>(args[0].const_int() - 1));
    map[n] = intern(n.op(), n.dtype(), args, n.attr());
    break;
  }
  return map;
}

// Whether options left copies in registers: faults of theirs are not in the kernel without them.
bool has_options(std::span<const Node> order) {
  return std::ranges::any_of(order,
                             [](Node n) { return n.is(Op::Range) && range_kind(n) == RangeKind::Upcast; });
}
NodeMap<Node> wrong_with_options(std::span<const Node> order) {
  return has_options(order) ? wrong_operand(order) : NodeMap<Node>();
}

using Mutation = NodeMap<Node> (*)(std::span<const Node>);

// The fault that changes what one step gives, and counts how often it could.
class PlantedFault : public StepSink {
 public:
  PlantedFault(std::string step, Mutation mutation, int& planted)
      : step_(std::move(step)), mutation_(mutation), planted_(planted) {}
  ~PlantedFault() override { drop_caches(); }  // kernels with the fault are known by keys that do not name it

  void kernel(const StepInfo& step, Node& kernel) override {
    if (step.name != step_) return;
    const NodeMap<Node> map = mutation_(toposort(kernel));
    if (map.empty()) return;
    ++planted_;
    kernel = substitute(kernel, map);
  }
  void program(const StepInfo& step, Program& program) override {
    if (step.name != step_) return;
    std::vector<Node> code(program.code.begin(), program.code.end());
    const NodeMap<Node> map = mutation_(toposort(code));
    if (map.empty()) return;
    ++planted_;
    for (NodeRef& node : program.code) node = substitute(node, map);
  }

 private:
  std::string step_;
  Mutation mutation_;
  int& planted_;
  const ExperimentScope scope_{{.sink = this}};
};

std::vector<float> numbers(std::size_t n, int seed) {
  std::vector<float> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<float>((static_cast<int>(i) * 37 + seed * 11) % 19 - 9) / 4;
  return out;
}

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, std::size_t m,
                           std::size_t k, std::size_t n) {
  std::vector<float> out(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t l = 0; l < k; ++l) out[i * n + j] += a[i * k + l] * b[l * n + j];
  return out;
}

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

TEST(FirstUse, AFaultPlantedAfterAnyStepOfTheCodeGeneratorIsCaught) {
  const Scope scope;
  const FlagScope strict(Flag::Check, "strict");
  const char* const steps[] = {"guard_unproved", "option_ranges",      "stage_values",   "place_folds",
                               "private_panels", "place_accumulators", "prefetch_tiles", "split_offsets",
                               "join_fragments", "peel_last_steps",    "group_reduce",   "simplify",
                               "expand",         "group_memory",       "lower_reduce",   "fuse_multiply_add",
                               "decompose",      "map_parallel",       "separate_nests", "lower_checks",
                               "lower_index",    "linearize"};
  for (const char* step : steps)
    for (const Mutation mutation : {wrong_operand, step_less}) {
      int planted = 0, caught = 0;
      {
        drop_caches();
        const PlantedFault fault(step, mutation, planted);
        for (const NodeRef& graph : graphs()) {
          const int before = planted;
          try {
            test::realize(graph);
            EXPECT_EQ(planted, before) << step << ": a wrong result went through";
          } catch (const InternalError& error) {
            EXPECT_GT(planted, before) << error.what();
            ++caught;
          }
        }
      }
      if (mutation == wrong_operand) {
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
  const PlantedFault fault("lower_reduce", wrong_operand, planted);
  const NodeRef left = floats(numbers(33 * 29, 1)), right = floats(numbers(29 * 47, 2));
  try {
    test::realize(test::matmul(left.node(), test::shaped(right.node(), {29, 47}), 33, 29, 47));
    FAIL() << "a wrong result went through";
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("so it does with other options, and with none"), std::string::npos) << text;
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

// Stores that a gate closes are done all the same.
NodeMap<Node> no_gate(std::span<const Node> order) {
  NodeMap<Node> map;
  if (!has_options(order)) return map;
  for (Node n : order)
    if (n.is(Op::Store) && n.arg_count() > 3) map[n] = store(n.arg(0), n.arg(1), n.arg(2));
  return map;
}

TEST(FirstUse, WhatAClosedGateLeavesAloneIsLookedAtAndPutBack) {
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

TEST(FirstUse, OffComparesNothing) {
  const Scope scope;
  const FlagScope off(Flag::Check, "off");
  drop_caches();
  int planted = 0;
  const PlantedFault fault("lower_reduce", wrong_operand, planted);
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
  const PlantedFault fault("expand", wrong_operand, planted);
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

TEST(FirstUse, PositionsLieOnBothSidesOfTheEdgesOfTheSplits) {
  const Scope scope;
  const Node memory = param(dtypes::Float32, 0, 1000), input = param(dtypes::Float32, 1, 1000);
  const Node r = range(index_const(1000), 0, RangeKind::Global);
  const Node kernel = sink(std::vector<Node>{end(store(memory, r, load(input, r)), std::vector<Node>{r})});
  const Target target = named_target("x86-64-v3");
  const SplitUnits units = split_units(kernel, parse_opts("UPCAST(0, 16) THREAD(0, 4)"), target, {});
  ASSERT_TRUE(units.contains(r));
  EXPECT_EQ(*units.find(r), (std::vector<std::int64_t>{16, 256, 1024}));
  const std::vector<reference::StoreAxes> stores = reference::store_axes(kernel, {});
  ASSERT_EQ(stores.size(), 1u);
  std::vector<bool> seen(1000);
  for (const reference::Position& p : sample_positions(stores, units, 7))
    seen[static_cast<std::size_t>(p.at[0])] = true;
  for (const std::size_t edge : {0, 15, 16, 991, 992, 255, 256, 767, 768, 999})
    EXPECT_TRUE(seen[edge]) << edge;
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
