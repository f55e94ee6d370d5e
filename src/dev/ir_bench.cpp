#include "lathe/dev/ir_bench.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/hash.h"
#include "base/thread_clock.h"
#include "ir/build.h"
#include "ir/walk.h"
#include "rules/simplify.h"

namespace lathe::dev {
namespace {

constexpr std::size_t kRanges = 6;

double seconds_since(double begin) { return thread_seconds() - begin; }

// Keeps results alive to the optimiser.
volatile std::uint64_t sink;

std::array<Node, kRanges> some_ranges() {
  std::array<Node, kRanges> out;
  for (std::size_t i = 0; i < kRanges; ++i)
    out[i] = range(index_const(static_cast<std::int64_t>(8 + 3 * i)), static_cast<std::int64_t>(i),
                   RangeKind::Global);
  return out;
}

// A connected graph of `count` distinct nodes (leaves aside): a running sum of products with constants, each
// of which is used again by a later product, so that walking meets nodes it has seen.
Node mixed_graph(std::uint64_t count) {
  std::array<Node, kRanges> ranges = some_ranges();
  Node sum = ranges[0], product = ranges[1];
  for (std::uint64_t i = 0; i + 3 <= count; i += 3) {
    Node scale = index_const(static_cast<std::int64_t>(i) + 2);
    Node next = intern(Op::Mul, dtypes::Index, {i % 2 == 0 ? product : ranges[i % kRanges], scale});
    sum = intern(Op::Add, dtypes::Index, {sum, next});
    product = next;
  }
  return sum;
}

// Six products in an order that is not the canonical one, and two constants.
Node six_terms(std::uint64_t seed, const std::array<Node, kRanges>& ranges) {
  Node sum = index_const(static_cast<std::int64_t>(seed % 97) + 1);
  for (std::size_t i = 0; i < kRanges; ++i) {
    std::int64_t scale = static_cast<std::int64_t>(hash_combine(seed, i) % 61) + 2;
    Node term = intern(Op::Mul, dtypes::Index, {ranges[(i * 5 + seed) % kRanges], index_const(scale)});
    sum = intern(Op::Add, dtypes::Index, {term, sum});
  }
  return intern(Op::Add, dtypes::Index, {sum, index_const(static_cast<std::int64_t>(seed) + 100)});
}

// The same six ranges as one flat index, taken apart again: what a reshape of six axes leaves behind.
Node six_axes_reshaped(std::uint64_t seed, const std::array<Node, kRanges>& ranges) {
  Node flat = ranges[seed % kRanges];
  std::int64_t inner = 1;
  for (std::size_t i = 1; i < kRanges; ++i) {
    Node r = ranges[(seed + i) % kRanges];
    flat = intern(Op::Add, dtypes::Index, {intern(Op::Mul, dtypes::Index, {flat, r.arg(0)}), r});
    if (i >= 4) inner *= r.arg(0).const_int();
  }
  Node shifted = intern(Op::Add, dtypes::Index, {flat, index_const(static_cast<std::int64_t>(seed) * inner)});
  Node c = index_const(inner);
  Node high = intern(Op::FloorDiv, dtypes::Index, {shifted, c});
  Node low = intern(Op::FloorMod, dtypes::Index, {shifted, c});
  return intern(Op::Add, dtypes::Index, {intern(Op::Mul, dtypes::Index, {low, index_const(7)}), high});
}

// Best time of several rounds, in seconds. `round` does its own timing, so that preparing is not counted.
double best(int rounds, const std::function<double()>& round) {
  double least = 1e300;
  for (int i = 0; i < rounds; ++i) least = std::min(least, round());
  return least;
}

double time_create(std::uint64_t nodes) {
  Scope scope;
  double begin = thread_seconds();
  Node root = mixed_graph(nodes);
  double seconds = seconds_since(begin);
  sink = root.key();
  return seconds;
}

double time_hits(std::uint64_t nodes) {
  Scope scope;
  Node first = mixed_graph(nodes);
  double begin = thread_seconds();
  Node again = mixed_graph(nodes);
  double seconds = seconds_since(begin);
  sink = again == first;
  return seconds;
}

// The key of a graph as made again by text or from a cache: the structure hashed without what the nodes
// remember.
double time_hash(std::span<const Node> order) {
  double begin = thread_seconds();
  NodeMap<std::uint64_t> keys;
  keys.reserve(order.size());
  std::uint64_t last = 0;
  for (Node n : order) {
    std::uint64_t key = static_cast<std::uint64_t>(n.op()) | static_cast<std::uint64_t>(n.dtype().scalar)
                                                                 << 8;
    if (n.attr().kind == Attr::Kind::Int) key = hash_combine(key, static_cast<std::uint64_t>(n.attr().i));
    for (Node a : n.args()) key = hash_combine(key, *keys.find(a));
    keys.try_emplace(n, key);
    last = key;
  }
  sink = last;
  return seconds_since(begin);
}

double time_toposort(Node root) {
  double begin = thread_seconds();
  std::vector<Node> order = toposort(root);
  double seconds = seconds_since(begin);
  sink = order.size();
  return seconds;
}

double time_uses(std::span<const Node> order) {
  double begin = thread_seconds();
  NodeMap<std::uint32_t> uses = use_counts(order);
  double seconds = seconds_since(begin);
  sink = uses.size();
  return seconds;
}

// Sorting nodes into the order that does not depend on how they were made.
double time_order_key(std::span<const Node> order) {
  std::vector<Node> nodes(order.begin(), order.end());
  double begin = thread_seconds();
  std::sort(nodes.begin(), nodes.end(), [](Node a, Node b) { return a.key() < b.key(); });
  double seconds = seconds_since(begin);
  sink = nodes.front().key();
  return seconds;
}

double time_simplify(std::uint64_t count, Node (*make)(std::uint64_t, const std::array<Node, kRanges>&)) {
  Scope scope;
  std::array<Node, kRanges> ranges = some_ranges();
  std::vector<Node> expressions;
  for (std::uint64_t i = 0; i < count; ++i) expressions.push_back(make(i, ranges));
  std::uint64_t keys = 0;
  double begin = thread_seconds();
  for (Node e : expressions) keys += simplify(e, kRulesAsWritten).key();
  double seconds = seconds_since(begin);
  sink = keys;
  return seconds;
}

// One leaf replaced below everything: every node is rebuilt.
double time_substitute(Node root) {
  Scope scope;
  NodeMap<Node> map;
  map[some_ranges()[1]] = range(index_const(5), 77, RangeKind::Loop);
  double begin = thread_seconds();
  Node out = substitute(root, map);
  double seconds = seconds_since(begin);
  sink = out.key();
  return seconds;
}

double time_rewrite(Node root) {
  Scope scope;
  double begin = thread_seconds();
  Node out = Rewriter(simplify_rules(), kRulesAsWritten).rewrite(root);
  double seconds = seconds_since(begin);
  sink = out.key();
  return seconds;
}

// A graph of distinct float nodes, each of which a rule changes (x * 1 over a long chain).
Node float_chain(std::uint64_t count) {
  Node x = param(dtypes::Float32, 0, 16), one = float_const(dtypes::Float32, 1);
  for (std::uint64_t i = 0; i + 2 <= count; i += 2) {
    x = intern(Op::Mul, dtypes::Float32, {x, one});
    x = intern(Op::Add, dtypes::Float32,
               {x, float_const(dtypes::Float32, static_cast<double>(i % 1000) + 2)});
  }
  return x;
}

}  // namespace

std::vector<IrBenchRow> bench_ir(const IrBenchOptions& options) {
  const std::uint64_t nodes = options.nodes, expressions = std::max<std::uint64_t>(nodes / 20, 1);
  std::vector<IrBenchRow> rows;
  auto add = [&](std::string name, std::string meaning, std::string unit, std::uint64_t count, double target,
                 const std::function<double()>& round) {
    double seconds = best(options.rounds, round);
    rows.push_back({std::move(name), std::move(meaning), std::move(unit), count,
                    seconds * 1e9 / static_cast<double>(count), target});
  };
  add("create", "distinct interned nodes, all misses", "node", nodes, 10, [&] { return time_create(nodes); });
  add("intern_hit", "nodes that exist, found again", "node", nodes, 0, [&] { return time_hits(nodes); });
  {
    Scope scope;
    Node root = mixed_graph(nodes);
    std::vector<Node> order = toposort(root);
    const std::uint64_t size = order.size();
    add("structural_hash", "the structure hashed from the leaves up", "node", size, 0,
        [&] { return time_hash(order); });
    add("toposort", "operands before users", "node", size, 20, [&] { return time_toposort(root); });
    add("consumer_map", "how often each node is used", "node", size, 0, [&] { return time_uses(order); });
    add("order_key", "sorted by canonical order key", "node", size, 0, [&] { return time_order_key(order); });
    add("substitute", "one leaf replaced, all above rebuilt", "node", size, 0,
        [&] { return time_substitute(root); });
  }
  {
    Scope scope;
    Node root = float_chain(nodes);
    add("rewrite", "the simplifying rules over a graph where half the nodes change", "node", nodes, 0,
        [&] { return time_rewrite(root); });
  }
  add("simplify_sum", "distinct 6-term index sums", "expression", expressions, 0.3,
      [&] { return time_simplify(expressions, six_terms); });
  add("simplify_reshape", "distinct 6-axis flat indices, divided and taken modulo", "expression", expressions,
      0.3, [&] { return time_simplify(expressions, six_axes_reshaped); });
  return rows;
}

std::vector<GrowthRow> bench_ir_growth(std::uint64_t from, std::uint64_t to, int rounds) {
  std::vector<GrowthRow> rows;
  for (std::uint64_t size = from; size <= to; size *= 10) {
    auto add = [&](const char* name, const std::function<double()>& round) {
      rows.push_back({name, size, best(rounds, round) * 1e9 / static_cast<double>(size)});
    };
    add("create", [&] { return time_create(size); });
    Scope scope;
    Node chain = float_chain(size);
    add("toposort", [&] { return time_toposort(chain); });
    add("rewrite", [&] { return time_rewrite(chain); });
  }
  return rows;
}

}  // namespace lathe::dev
