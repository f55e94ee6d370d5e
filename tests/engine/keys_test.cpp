// Cache keys: whatever changes generated code changes the key under which it is kept.
#include <gtest/gtest.h>

#include <set>

#include "base/env.h"
#include "engine/compile_context.h"
#include "engine/kernels.h"
#include "rewrite/rewriter.h"
#include "rules/simplify.h"
#include "runtime/devices.h"
#include "target/target.h"

namespace lathe::engine {
namespace {

// A value of the flag that is not its default.
std::string other_value(const FlagInfo& info) {
  switch (info.kind) {
    case FlagKind::Bool: return info.default_value == "0" ? "1" : "0";
    case FlagKind::Int:
    case FlagKind::Bytes: return info.default_value == "1" ? "2" : "1";
    case FlagKind::Text: return "add-zero";
    case FlagKind::Choice: break;
  }
  const std::string_view first = info.allowed.substr(0, info.allowed.find('|'));
  const std::string_view rest = info.allowed.substr(first.size() + 1);
  return std::string(first != info.default_value ? first : rest.substr(0, rest.find('|')));
}

TEST(Keys, EachFlagThatChangesCodeChangesTheKeyAndNoOtherDoes) {
  const std::string usual = flags_key();
  std::set<std::string> seen{usual};
  for (const FlagInfo& info : flag_table()) {
    const FlagScope scope(info.flag, other_value(info));
    if (info.affects == FlagAffects::Run)
      EXPECT_EQ(flags_key(), usual) << info.name;
    else
      EXPECT_TRUE(seen.insert(flags_key()).second) << info.name;
  }
  EXPECT_EQ(flags_key(), usual);
}

TEST(Keys, ASwitchCountsByBeingOnOnly) {
  std::string on;
  {
    const FlagScope scope(Flag::Beam, "2");
    on = flags_key();
  }
  const FlagScope scope(Flag::Beam, "4");
  EXPECT_EQ(flags_key(), on);
}

TEST(Keys, DisabledAndPlantedRulesAreInTheKey) {
  std::set<std::string> seen{flags_key()};
  const RuleSet planted("planted", {index_algebra()});
  for (const Experiment& experiment :
       {Experiment{.disabled = {"add-zero"}}, Experiment{.planted = &planted}}) {
    const ExperimentScope scope(experiment);
    EXPECT_TRUE(seen.insert(flags_key()).second);
  }
  EXPECT_FALSE(seen.insert(flags_key()).second);
}

// The other value of one fact of any type.
void flip(std::string& fact) { fact += "x"; }
void flip(bool& fact) { fact = !fact; }
void flip(int& fact) { ++fact; }
void flip(double& fact) { ++fact; }
void flip(std::int64_t& fact) { ++fact; }
void flip(std::int64_t (&fact)[3]) { ++fact[1]; }
void flip(std::vector<Scalar>& fact) { fact.push_back(Scalar::Float64); }
void flip(std::vector<OpError>& fact) { fact.push_back({Op::Sin, 2}); }
void flip(std::vector<std::string>& fact) { fact.emplace_back("x"); }

TEST(Keys, EachFactOfATargetIsInItsKey) {
  const Target usual = named_target("x86-64-v3");
  int facts = 0;
  // Binds every member, so that a new one does not compile here until it is flipped, too.
  auto each = [&](auto&& use) {
    Target t = usual;
    auto& [name, reference, features, cpu, triple, vectors, groups, threads, fma, vector_bytes,
           vector_registers, max_load_bytes, small_masks, strided_lanes, table_lanes, scales, rounds_products,
           wide_integers, divides_constants, cores, l1, l2, l3, l1_ways, l2_ways, rates, rates_from,
           sums_in_flight, prefetch_streams, prefetch_lines, reload_steps, wake_steps, max_buffers, max_group,
           max_locals, max_groups, shared_bytes, warp, thread_registers, shared_banks, group_rates,
           async_copies, bulk_copies, core_threads, core_registers, core_shared_bytes, emulated, converted,
           native, units] = t;
    auto& [arithmetic, l1_rate, l2_rate, l3_rate, memory_rate] = rates;
    auto& [busy_threads, fragment_word, fragment_row, panel_words, panel_step, bulk_bytes, copy_cycles,
           panel_products, other_products, moved_bytes, launch_seconds] = group_rates;
    facts = 0;
    use(t, name), use(t, reference), use(t, features), use(t, cpu), use(t, vectors), use(t, groups);
    use(t, threads), use(t, fma), use(t, vector_bytes), use(t, vector_registers), use(t, max_load_bytes);
    use(t, cores), use(t, l1), use(t, l2), use(t, l3), use(t, max_buffers), use(t, max_group);
    use(t, max_locals), use(t, max_groups), use(t, shared_bytes), use(t, emulated), use(t, converted);
    use(t, units), use(t, warp), use(t, thread_registers), use(t, core_threads), use(t, core_registers);
    use(t, core_shared_bytes), use(t, async_copies), use(t, bulk_copies), use(t, native);
    use(t, triple), use(t, strided_lanes), use(t, table_lanes), use(t, scales), use(t, rounds_products);
    use(t, small_masks), use(t, l1_ways), use(t, l2_ways), use(t, rates_from), use(t, sums_in_flight);
    use(t, prefetch_streams), use(t, prefetch_lines), use(t, reload_steps), use(t, wake_steps);
    use(t, shared_banks), use(t, arithmetic), use(t, l1_rate), use(t, l2_rate), use(t, l3_rate);
    use(t, memory_rate), use(t, busy_threads), use(t, fragment_word), use(t, fragment_row);
    use(t, panel_words), use(t, panel_step), use(t, bulk_bytes), use(t, copy_cycles), use(t, panel_products);
    use(t, other_products), use(t, moved_bytes), use(t, launch_seconds), use(t, wide_integers);
    use(t, divides_constants);
  };
  std::set<std::string> keys{usual.key()};
  each([&](Target& t, auto& fact) {
    flip(fact);  // on top of those before: every step must show
    EXPECT_TRUE(keys.insert(t.key()).second) << "fact " << facts;
    ++facts;
  });
  EXPECT_EQ(facts, 64);
}

TEST(Keys, AnotherCompilerOrTargetIsAnotherKey) {
  const OpenDevice& v3 = open_device("NULL:x86-64-v3");
  const OpenDevice& v4 = open_device("NULL:x86-64-v4");
  EXPECT_NE(compiler_key(*v3.compiler), compiler_key(*v4.compiler));
  EXPECT_NE(compiler_key(*v3.compiler).find(std::string(v3.compiler->version())), std::string::npos);
}

}  // namespace
}  // namespace lathe::engine
