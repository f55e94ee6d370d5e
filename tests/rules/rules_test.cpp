#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include <fmt/format.h>

#include "evaluate_graph.h"
#include "rules/linear.h"
#include "rules/order.h"
#include "rules/simplify.h"
#include "support/fuzz.h"

namespace lathe {
namespace {

Node simplified(Node root) { return simplify(root, kRulesAsWritten); }

using test::evaluate_graph;

constexpr unsigned kSeed = 20240611;

struct Leaf {
  Node node;
  std::int64_t lo, hi;
};

std::vector<Leaf> index_leaves() {
  return {{variable("a", 0, 7), 0, 7},
          {variable("b", -5, 9), -5, 9},
          {variable("c", 0, 63), 0, 63},
          {variable("d", 3, 17), 3, 17}};
}

Node random_index(std::mt19937& rng, const std::vector<Leaf>& leaves, int depth) {
  auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  if (depth == 0 || pick(6) == 0)
    return pick(4) == 0 ? index_const(pick(25) - 8)
                        : leaves[static_cast<std::size_t>(pick(static_cast<int>(leaves.size())))].node;
  auto sub = [&] { return random_index(rng, leaves, depth - 1); };
  Node positive = index_const(1 + pick(24));
  switch (pick(9)) {
    case 0:
    case 1:
    case 2: return sub() + sub();
    case 3:
    case 4: return sub() * index_const(pick(20) - 6);
    case 5: return floor_div(sub(), positive);
    case 6: return floor_mod(sub(), positive);
    case 7: return pick(2) ? max(sub(), sub()) : min(sub(), sub());
    default: return where(less(sub(), sub()), sub(), sub());
  }
}

NodeMap<Element> random_values(std::mt19937& rng, const std::vector<Leaf>& leaves) {
  NodeMap<Element> values;
  for (const Leaf& l : leaves)
    values[l.node] = {l.lo + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(l.hi - l.lo + 1)),
                      0};
  return values;
}

TEST(Simplify, KeepsTheValueOfRandomIndexExpressions) {
  Scope scope;
  std::vector<Leaf> leaves = index_leaves();
  for (test::FuzzSeeds seeds(20000); seeds.next();) {
    const Scope inside;
    const std::uint64_t i = seeds.seed();
    std::mt19937 rng(static_cast<unsigned>(i));
    Node e = random_index(rng, leaves, 1 + static_cast<int>(rng() % 5));
    if (i % 4 == 0) e = less(e, random_index(rng, leaves, 3));
    Node s = simplified(e);
    for (int k = 0; k < 12; ++k) {
      NodeMap<Element> values = random_values(rng, leaves);
      std::int64_t want = evaluate_graph(e, values).i, got = evaluate_graph(s, values).i;
      ASSERT_EQ(want, got) << "FUZZ_SEED=" << i << "\n  " << index_text(e) << "\n  " << index_text(s);
      ASSERT_GE(want, e.lo());
      ASSERT_LE(want, e.hi());
      ASSERT_GE(got, s.lo()) << index_text(s);
      ASSERT_LE(got, s.hi()) << index_text(s);
    }
    ASSERT_EQ(simplified(s), s) << "not stable: " << index_text(e) << "\n  " << index_text(s) << "\n  "
                                << index_text(simplified(s));
  }
}

TEST(Simplify, GivesTheFormsThatSchedulingNeeds) {
  Scope scope;
  Node i = range(index_const(64), 0, RangeKind::Global), j = range(index_const(8), 1, RangeKind::Global);
  auto c = [](std::int64_t v) { return index_const(v); };
  struct Case {
    Node from;
    const char* to;
  };
  Case cases[] = {
      {floor_div(i, c(8)) * c(8) + floor_mod(i, c(8)), "r0"},
      {floor_div(i * c(8) + j, c(8)), "r0"},
      {floor_mod(i * c(8) + j, c(8)), "r1"},
      {floor_mod(floor_div(i * c(8) + j, c(4)), c(2)), "r1/4"},
      {floor_div(i * c(8) + j, c(16)), "r0/2"},
      {floor_mod(i * c(8) + j, c(16)), "r0%2*8 + r1"},
      {floor_div(floor_div(i, c(4)), c(2)), "r0/8"},
      {floor_mod(i, c(64)), "r0"},
      {(i + c(3)) + (j + c(-3)), "r0 + r1"},
      {i + i, "r0*2"},
      {floor_mod(floor_div(i, c(2)), c(4)) * c(2) + floor_mod(i, c(2)), "r0%8"},
      {floor_div(i, c(8)) * c(16) + floor_mod(floor_div(i, c(2)), c(4)) * c(4), "r0/2*4"},
  };
  for (const Case& k : cases) {
    std::string got = index_text(simplified(k.from));
    // Operand order is by structural key: accept either order of a sum of two.
    std::string want = k.to, other = want;
    if (auto plus = want.find(" + "); plus != std::string::npos)
      other = want.substr(plus + 3) + " + " + want.substr(0, plus);
    EXPECT_TRUE(got == want || got == other) << index_text(k.from) << " gave " << got << ", wanted " << want;
  }
  EXPECT_EQ(simplified(less(i * c(8) + j, c(512))), bool_const(true));
  EXPECT_EQ(simplified(less(i * c(8) + j, c(16))), less(i, c(2)));
}

// Every row of a table is tried by building its left side from random leaves and comparing both sides.
TEST(Rules, NamesAreUniqueInEachTable) {
  for (RuleTable t :
       {index_algebra(), compare_algebra(), logic_algebra(), integer_algebra(), float_algebra()}) {
    std::set<std::string_view> names;
    for (const Rule& r : t.rules) EXPECT_TRUE(names.insert(r.name).second) << t.name << ": " << r.name;
  }
}

DType leaf_dtype(const RuleTable& t) {
  if (t.name == "logic") return dtypes::Bool;
  if (t.name == "integer") return dtypes::Int8;
  if (t.name == "float") return dtypes::Float32;
  return dtypes::Index;
}

Node instance(const Pat& p, int at, DType dtype, std::span<const Node> slots) {
  const PatNode& n = p.nodes[static_cast<std::size_t>(at)];
  if (n.kind == PatKind::Literal) return number(dtype, static_cast<double>(n.literal));
  if (n.kind != PatKind::Apply) return slots[n.slot];
  std::vector<Node> args;
  for (std::size_t i = 0; i < n.args; ++i)
    args.push_back(instance(p, n.arg[i], n.op == Op::Where && i == 0 ? dtypes::Bool : dtype, slots));
  return apply_scalar(n.op, args);
}

// Slots that stand as the condition of a Where, or under a logic op of one, are bool whatever the table's
// dtype.
void bool_slots(const Pat& p, int at, bool boolean, unsigned& mask) {
  const PatNode& n = p.nodes[static_cast<std::size_t>(at)];
  if (n.kind == PatKind::Any && boolean) mask |= 1u << n.slot;
  for (std::size_t i = 0; i < n.args; ++i)
    bool_slots(p, n.arg[i], n.op == Op::Where ? i == 0 : boolean, mask);
}

TEST(Rules, EveryRowKeepsTheValueAndCanFire) {
  Scope scope;
  std::mt19937 rng(kSeed);
  const float floats[] = {0.f, -0.f, 1.f, -2.5f, INFINITY, -INFINITY, NAN, 3e38f, 1e-40f};
  for (RuleTable t :
       {index_algebra(), compare_algebra(), logic_algebra(), integer_algebra(), float_algebra()}) {
    DType dtype = leaf_dtype(t);
    for (const Rule& rule : t.rules) {
      int fired = 0;
      unsigned booleans = 0;
      bool_slots(rule.from, rule.from.size - 1, false, booleans);
      for (int sample = 0; sample < 400; ++sample) {
        std::vector<Node> slots(kPatSlots);
        NodeMap<Element> values;
        for (int s = 0; s < kPatSlots; ++s) {
          bool constant = false;
          for (int i = 0; i < rule.from.size; ++i) {
            const PatNode& n = rule.from.nodes[static_cast<std::size_t>(i)];
            constant |= n.kind == PatKind::Const && n.slot == s;
          }
          DType d = booleans >> s & 1 ? dtypes::Bool : dtype;
          Element v = d.is_bool()    ? Element{static_cast<std::int64_t>(rng() % 2), 0}
                      : d.is_float() ? Element{0, floats[rng() % std::size(floats)]}
                      : d.is_index() ? Element{static_cast<std::int64_t>(rng() % 40) - 8, 0}
                                     : Element{static_cast<std::int8_t>(rng()), 0};
          std::int64_t span = static_cast<std::int64_t>(rng() % 12),
                       at = v.i - static_cast<std::int64_t>(rng() % static_cast<unsigned>(span + 1));
          if (constant)
            slots[static_cast<std::size_t>(s)] = element_const(d, v);
          else if (d.is_index()) {
            // Alone, or inside a sum, so that the rules written as functions meet what they look for.
            Node leaf = variable("v" + std::to_string(s), at, at + span);
            values[leaf] = v;
            slots[static_cast<std::size_t>(s)] = rng() % 2 ? leaf : leaf * index_const(3) + index_const(2);
            continue;
          } else
            slots[static_cast<std::size_t>(s)] = load(param(d, s, 1), index_const(0));
          values[slots[static_cast<std::size_t>(s)]] = v;
        }
        Node left = instance(rule.from, rule.from.size - 1, dtype, slots);
        if (!left.arg_count() || !t.applies(left)) continue;
        RuleSet one("one", {RuleTable{t.name, std::span(&rule, 1), t.applies}});
        Rewriter rewriter(one, kRulesAsWritten);
        Node right = rewriter.simplify(left);
        if (right == left) continue;
        ++fired;
        ASSERT_TRUE(shrinks(*find_rule_order(t.name), left, right))
            << t.name << "/" << rule.name << " seed " << kSeed << ": " << index_text(left) << " -> "
            << index_text(right);
        Element want = evaluate_graph(left, values), got = evaluate_graph(right, values);
        bool same = want.i == got.i && (want.f == got.f || (want.f != want.f && got.f != got.f)) &&
                    std::signbit(want.f) == std::signbit(got.f);
        ASSERT_TRUE(same || (want.f != want.f && got.f != got.f))
            << t.name << "/" << rule.name << " seed " << kSeed << ": " << index_text(left) << " -> "
            << index_text(right);
      }
      EXPECT_GT(fired, 0) << t.name << "/" << rule.name << " never fired";
    }
  }
}

// Looks at every application of a rule.
class OrderCheck : public RewriteTrace {
 public:
  void applied(std::string_view table, std::string_view rule, Node before, Node after) override {
    ++applications;
    const RuleOrder* order = find_rule_order(table);
    if (order == nullptr || !shrinks(*order, before, after))
      faults.push_back(fmt::format("{}/{}: {} -> {}", table, rule, index_text(before), index_text(after)));
  }
  std::vector<std::string> faults;
  std::uint64_t applications = 0;
};

// R19: so rewriting ends.
TEST(Rules, EveryApplicationMakesWhatItsTableDeclaresSmaller) {
  Scope scope;
  const std::vector<Leaf> leaves = index_leaves();
  OrderCheck check;
  for (test::FuzzSeeds seeds(3000); seeds.next() && check.faults.empty();) {
    const Scope inside;
    std::mt19937 rng(static_cast<unsigned>(seeds.seed()));
    Node e = random_index(rng, leaves, 1 + static_cast<int>(rng() % 5));
    if (seeds.seed() % 4 == 0) e = less(e, random_index(rng, leaves, 3));
    RuleChanges watched;
    watched.trace = &check;
    simplify(e, watched);
    ASSERT_TRUE(check.faults.empty()) << "FUZZ_SEED=" << seeds.seed() << ": " << check.faults[0];
  }
  EXPECT_GT(check.applications, 1000u);
}

TEST(Rules, EveryTableDeclaresTheOrderItShrinks) {
  for (const RuleTable& table : simplify_rules().tables()) {
    const RuleOrder* order = find_rule_order(table.name);
    ASSERT_NE(order, nullptr) << table.name;
    EXPECT_FALSE(order->words.empty());
  }
}

// Expressions of every kind of operand that rules look at, integers with and without wrap-around, logic and
// floats among them.
Node random_value(std::mt19937& rng, DType dtype, int depth) {
  const auto pick = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  const auto sub = [&](DType d) { return random_value(rng, d, depth - 1); };
  if (depth == 0 || pick(7) == 0) {
    if (pick(2) == 0)
      return number(dtype, dtype.is_bool() ? pick(2) : pick(5) - (dtype == dtypes::UInt8 ? 0 : 2));
    const int slot = pick(3);
    return dtype.is_index() ? variable("v" + std::to_string(slot), slot - 1, 9 + 3 * slot)
                            : load(param(dtype, slot, 1), index_const(0));
  }
  if (dtype.is_bool()) {
    constexpr DType kCompared[] = {dtypes::Index, dtypes::Int32, dtypes::UInt8, dtypes::Float32};
    const DType of = kCompared[pick(4)];
    switch (pick(6)) {
      case 0: return logical_and(sub(dtype), sub(dtype));
      case 1: return apply(Op::Or, sub(dtype), sub(dtype));
      case 2: return logical_not(sub(dtype));
      case 3: return less(sub(of), sub(of));
      case 4: return apply(Op::Eq, sub(of), sub(of));
      default: return where(sub(dtype), sub(dtype), sub(dtype));
    }
  }
  switch (pick(8)) {
    case 0:
    case 1:
    case 2: return sub(dtype) + sub(dtype);
    case 3: return sub(dtype) * number(dtype, 1 + pick(4));
    case 4: return where(sub(dtypes::Bool), sub(dtype), sub(dtype));
    case 5: return pick(2) == 0 ? max(sub(dtype), sub(dtype)) : min(sub(dtype), sub(dtype));
    case 6:
      if (dtype.is_index()) return floor_div(sub(dtype), index_const(1 + pick(6)));
      return dtype.is_float() ? apply(Op::Neg, sub(dtype)) : apply(Op::And, sub(dtype), sub(dtype));
    default:
      if (dtype.is_index()) return floor_mod(sub(dtype), index_const(1 + pick(6)));
      return sub(dtype) * sub(dtype);
  }
}

// LATHE_WITHOUT takes any of them: what is left must still come to an end.
TEST(Rules, NoneOfThemIsNeededForTheOthersToEnd) {
  Scope scope;
  constexpr DType kDTypes[] = {dtypes::Index, dtypes::Int32, dtypes::UInt8, dtypes::Bool, dtypes::Float32};
  std::set<std::string_view> names;
  for (const RuleTable& table : simplify_rules().tables())
    for (const Rule& rule : table.rules) names.insert(rule.name);
  for (const std::string_view name : names) {
    RuleChanges without;
    without.disabled = {std::string(name)};
    for (test::FuzzSeeds seeds(400); seeds.next();) {
      const Scope inside;
      std::mt19937 rng(static_cast<unsigned>(seeds.seed()));
      const Node e = random_value(rng, kDTypes[rng() % std::size(kDTypes)], 2 + static_cast<int>(rng() % 4));
      ASSERT_NO_THROW(simplify(e, without))
          << "without " << name << " FUZZ_SEED=" << seeds.seed() << ": " << index_text(e);
    }
  }
}

constexpr Pat x = any(0), y = any(1);
constexpr Rule kUndo[] = {
    {"there", max(x, y), min(x, y)},
    {"and-back", min(x, y), max(x, y)},
};

TEST(Rewriter, RefusesRulesThatUndoEachOtherByName) {
  Scope scope;
  RuleSet bad("bad", {RuleTable{"undo", kUndo, [](Node) { return true; }}});
  try {
    Rewriter(bad, kRulesAsWritten).rewrite(max(variable("a", 0, 9), variable("b", 0, 9)));
    FAIL() << "no error";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find("there"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("and-back"), std::string::npos) << e.what();
  }
}

TEST(Rewriter, VisitsLongChainsOnceAndWithoutRecursion) {
  Scope scope;
  Node n = load(param(dtypes::Float32, 0, 1), index_const(0));
  for (int i = 0; i < 1000000; ++i) n = n + float_const(dtypes::Float32, i % 7);
  Rewriter r(simplify_rules(), kRulesAsWritten);
  EXPECT_EQ(r.rewrite(n), n);
  EXPECT_LE(r.stats().visited, 1000100u);
}

TEST(Linear, KnowsWhatDividesAnIndex) {
  Scope scope;
  Node r = range(index_const(16), 0, RangeKind::Loop);
  EXPECT_EQ(known_divisor(r * index_const(12) + index_const(8)), 4);
  EXPECT_EQ(known_divisor(index_const(0)), 0);
}

}  // namespace
}  // namespace lathe
