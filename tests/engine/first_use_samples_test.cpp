// Which elements the check before first use looks at, and at which sizes.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "base/env.h"
#include "codegen/codegen.h"
#include "engine/kernel_check.h"
#include "engine/prepared_schedule.h"
#include "engine/sample_positions.h"
#include "engine/size_kinds.h"
#include "engine/store_elements.h"
#include "graphs.h"
#include "ir/launch.h"
#include "ir/ranges.h"

namespace lathe::engine {
namespace {

using test::floats;
using test::numbers;
using test::read;

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
  for (const reference::Position& p : sample_positions(stores, units, {}, 7))
    seen[static_cast<std::size_t>(p.at[0])] = true;
  for (const std::size_t edge : {0, 15, 16, 991, 992, 255, 256, 767, 768, 999})
    EXPECT_TRUE(seen[edge]) << edge;
}

// Whatever the order of the stores: no position of one that another writes over, and of all others some.
TEST(FirstUse, OfSeveralStoresToABufferWhatNoOtherWritesOverIsLookedAt) {
  const Scope scope;
  const Node memory = param(dtypes::Float32, 0, 1000), input = param(dtypes::Float32, 1, 500);
  const Node r = range(index_const(500), 0, RangeKind::Global);
  const Node row = range(index_const(100), 1, RangeKind::Global),
             column = range(index_const(5), 2, RangeKind::Global);
  const auto writes = [&](Node index, Node gate = Node()) {
    return end(store(memory, index, load(input, r), gate), std::vector<Node>{r});
  };
  const auto block = [&](std::int64_t first) {  // five of every ten
    return end(store(memory, row * index_const(10) + column + index_const(first), load(input, column)),
               std::vector<Node>{row, column});
  };
  const auto from = [&](std::int64_t first) { return r + index_const(first); };
  const auto every_second = [&](std::int64_t first) { return r * index_const(2) + index_const(first); };
  const Node gate = less(r, index_const(100));
  struct Case {
    const char* name;
    std::vector<Node> effects;
    // Elements of each store that must not be looked at; of one where that is none or few, others are.
    std::vector<std::pair<std::int64_t, std::int64_t>> hidden;
    std::vector<bool> looked_at;
  };
  const Case cases[] = {
      {"side by side", {writes(from(0)), writes(from(500))}, {{-1, -1}, {-1, -1}}, {true, true}},
      {"over the end of the first",
       {writes(from(0)), writes(from(400))},
       {{400, 499}, {-1, -1}},
       {true, true}},
      {"what the gate leaves alone is the first's, or nobody's",
       {writes(from(0)), writes(from(400), gate)},
       {{400, 499}, {400, 499}},
       {true, true}},
      {"the first is gated", {writes(from(0), gate), writes(from(500))}, {{-1, -1}, {-1, -1}}, {true, true}},
      {"in turn", {writes(every_second(0)), writes(every_second(1))}, {{-1, -1}, {-1, -1}}, {true, true}},
      {"in turn, backwards",
       {writes(every_second(0)), writes(index_const(999) - r * index_const(2))},
       {{-1, -1}, {-1, -1}},
       {true, true}},
      {"blocks in turn", {block(0), block(5)}, {{-1, -1}, {-1, -1}}, {true, true}},
      {"all of it", {writes(from(0)), writes(from(0))}, {{0, 499}, {-1, -1}}, {false, true}},
      {"every second of it", {writes(from(0)), writes(every_second(0))}, {{-1, -1}, {-1, -1}}, {true, true}},
  };
  for (const Case& c : cases) {
    const std::vector<reference::StoreAxes> stores = reference::store_axes(sink(c.effects), {});
    std::vector<bool> seen(c.effects.size());
    for (const reference::Position& p : sample_positions(stores, {}, {}, 7)) {
      seen[p.store] = true;
      const std::int64_t element = *StoreElements(stores[p.store], {}).at(p.at);
      EXPECT_FALSE(c.hidden[p.store].first <= element && element <= c.hidden[p.store].second)
          << c.name << ": element " << element << " of store " << p.store;
      // Told the slow way.
      for (std::size_t o = p.store + 1; o < stores.size(); ++o)
        for (std::int64_t i = 0; i < 500; ++i) {
          const StoreElements other(stores[o], {});
          const std::vector<std::int64_t> at =
              stores[o].ranges.size() == 1 ? std::vector{i} : std::vector{i / 5, i % 5};
          EXPECT_NE(*other.at(at), element) << c.name << ": written over at " << i;
        }
    }
    EXPECT_EQ(seen, c.looked_at) << c.name;
  }
}

TEST(FirstUse, StoresThatTakeTurnsInOneBufferAreCompared) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  drop_caches();
  const Node out = param(dtypes::Float32, 0, 300), in = param(dtypes::Float32, 1, 150);
  std::vector<Node> effects;
  for (const std::int64_t odd : {0, 1}) {
    const Node r = range(index_const(150), odd, RangeKind::Global);
    effects.push_back(
        end(store(out, r * index_const(2) + index_const(odd), load(in, r)), std::vector<Node>{r}));
  }
  const Node kernel = sink(effects);
  const CheckCounts before = check_counts();
  const NodeRef memory = floats(numbers(300, 1)), source = floats(numbers(150, 2));
  const Node slots[] = {memory, source};
  const Node effect = launch({"turns", "", kernel}, slots);
  test::realize(after(memory, std::span(&effect, 1)));
  EXPECT_EQ(check_counts().passed, before.passed + 1);
  EXPECT_EQ(check_counts().unchecked, before.unchecked);
}

// ---- sizes that depend on variables

Node bound(std::int64_t n) {
  return intern(Op::Bind, dtypes::Index, {variable("n", 1, 200), index_const(n)});
}
// The first n of 200 numbers, computed with.
Node first_of(Node memory, std::int64_t n) {
  const Node begin[] = {index_const(0)}, end[] = {bound(n)};
  const Node x = shrink(memory, begin, end);
  return x * x + x;
}

TEST(FirstUse, KindsOfSizesFollowFromTheSplitsAlone) {
  const Scope scope;
  const Target target = named_target("x86-64-v3");
  const Node n = variable("n", 1, 1000), m = variable("m", 1, 1000);
  const Node i = range(n, 0, RangeKind::Global), j = range(m, 1, RangeKind::Global);
  const Node at = i * index_const(1000) + j;
  const Node memory = param(dtypes::Float32, 0, 1000000), input = param(dtypes::Float32, 1, 1000000);
  const Node kernel =
      sink(std::vector<Node>{end(store(memory, at, load(input, at)), std::vector<Node>{i, j})});
  Program launch;
  launch.variables = {n, m};
  const auto kind = [&](std::int64_t rows, std::int64_t columns, const SizeSplits& splits) {
    const std::pair<NodeRef, std::int64_t> values[] = {{n, rows}, {m, columns}};
    return size_kind(launch, values, splits);
  };
  const SizeSplits whole = size_splits(kernel, {}, target);
  EXPECT_EQ(whole, (SizeSplits{7, {}})) << "nothing is split";
  EXPECT_EQ(kind(17, 18, whole), kind(24, 32, whole));
  EXPECT_NE(kind(17, 18, whole), kind(18, 18, whole));
  EXPECT_NE(kind(1, 1, whole), kind(40, 33, whole));
  EXPECT_NE(kind(1000, 1000, whole), kind(40, 33, whole));

  const SizeSplits lanes = size_splits(kernel, parse_opts("UPCAST(1, 16)"), target);
  EXPECT_EQ(lanes, (SizeSplits{16, {}}));
  EXPECT_EQ(kind(17, 33, lanes), kind(33, 17, lanes));
  EXPECT_NE(kind(17, 33, lanes), kind(17, 34, lanes));
  EXPECT_NE(kind(18, 33, lanes), kind(17, 34, lanes)) << "two variables";

  const SizeSplits large = size_splits(kernel, parse_opts("UPCAST(1, 128)"), target);
  EXPECT_EQ(large, (SizeSplits{7, {128}}));
  EXPECT_NE(kind(16, 256, large), kind(16, 263, large)) << "a split by 128";
  EXPECT_EQ(kind(16, 272, large), kind(16, 328, large));
}

// In any order and in several processes, one size of each kind is compared.
TEST(FirstUse, OneSizeOfEachKindIsComparedInTheLifeOfAKernel) {
  const Scope scope;
  const FlagScope first(Flag::Check, "first");
  char pattern[] = "/tmp/lathe-check-test-XXXXXX";
  const std::string folder = mkdtemp(pattern);
  int run = 0;
  for (const std::vector<std::int64_t>& order : {std::vector<std::int64_t>{17, 34, 51, 0, 40, 17, 80},
                                                 std::vector<std::int64_t>{40, 0, 80, 17, 34, 0, 51, 40}}) {
    const FlagScope cache(Flag::Cache, fmt::format("{}/{}", folder, run++));
    drop_caches();
    const std::uint64_t before = check_counts().passed;
    std::set<std::uint64_t> kinds;
    for (const std::int64_t n : order) {
      if (n == 0) {
        drop_caches();  // the next process
        continue;
      }
      const NodeRef memory = floats(numbers(200, 1));
      const Node graph = first_of(memory, n);
      const PreparedStep step = prepare_only({&graph, 1})->steps[0];
      const MadeKernel& made = *step.kernel.made;
      const std::pair<NodeRef, std::int64_t> values[] = {{variable("n", 1, 200), n}};
      kinds.insert(size_kind(made.launch, values,
                             size_splits(made.ast, made.options, step.device->compiler->target())));
      test::realize(graph);
    }
    EXPECT_EQ(check_counts().passed, before + kinds.size()) << "order " << run;
  }
  drop_caches();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lathe::engine
