#include "codegen/options/prefetch_tiles.h"

#include <algorithm>

#include "base/small_vector.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/linear.h"
#include "target/cache_line.h"

namespace lathe {
namespace {

// More lines than this in one pass are no prefetch any more: they stand in each other's way.
constexpr std::int64_t kMostLines = 512;
// More lines than this at once are prefetched step by step of the sum: a core waits for so many, and no more.
constexpr std::int64_t kAtOnce = 8;

bool has(std::span<const Node> ranges, Node r) {
  return std::find(ranges.begin(), ranges.end(), r) != ranges.end();
}
// A line that is read so soon that it goes to L1.
Node soon(Node memory, Node index) { return prefetch(memory, index, 1); }
bool is_loop(Node r) { return range_kind(r) == RangeKind::Loop || range_kind(r) == RangeKind::Global; }

class Prefetcher {
 public:
  explicit Prefetcher(Node kernel) : kernel_(kernel), order_(toposort(kernel)), ids_(fresh_ids(kernel)) {
    for (Node n : order_)
      if (n.is(Op::Store)) written_.try_emplace(base_memory(n.arg(0)), 1);
  }

  Node run(const Pipelined& loop) {
    Node range, store;
    for (Node n : order_)
      if (n.is(Op::Range) && range_id(n) == loop.position) range = n;
    if (!range || !(is_loop(range) || range_kind(range) == RangeKind::Reduce)) return kernel_;
    // The work of a step is what its store needs: the deepest of those to the kernel's outputs.
    for (Node n : order_)
      if (n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Param) && has(ranges_of(n), range) &&
          (!store || ranges_of(n).size() > ranges_of(store).size()))
        store = n;
    if (!store) return range_kind(range) == RangeKind::Reduce ? in_sums(range, loop.depth) : kernel_;
    SmallVector<Node, 8> fetches;
    SmallVector<Node, 8> memories;
    NodeMap<Node> loads;
    for (Node n : order_) {
      if (!n.is(Op::Load) || !n.arg(0).is(Op::Param) || written_.contains(n.arg(0))) continue;
      if (std::find(memories.begin(), memories.end(), n.arg(0)) != memories.end()) continue;
      const Node steps = steps_of(n, store), fetch = fetch_of(n, range, loop.depth, store, steps);
      if (!fetch) continue;
      memories.push_back(n.arg(0));
      if (steps && depends_on(fetch, steps))
        loads.try_emplace(n, after_fetches(n, {&fetch, 1}));
      else
        fetches.push_back(fetch);
    }
    Node result = kernel_;
    if (!fetches.empty()) {
      NodeMap<Node> map;
      map.try_emplace(store, after_fetches(store, fetches));
      result = substitute(result, map);
    }
    return loads.empty() ? result : substitute(result, loads);
  }

 private:
  // The same access of memory, after the fetches.
  static Node after_fetches(Node access, std::span<const Node> fetches) {
    SmallVector<Node, 4> args(access.args().begin(), access.args().end());
    args[0] = after(args[0], fetches);
    return intern(access.op(), access.dtype(), args, access.attr());
  }
  // The innermost loop of the sum that a load feeds.
  static Node steps_of(Node load, Node store) {
    Node steps;
    for (Node n : toposort(store.arg(2))) {
      if (!n.is(Op::Reduce)) continue;
      for (Node r : closed_ranges(n))
        if (range_kind(r) == RangeKind::Reduce && depends_on(load, r) && r.arg(0).is_const() &&
            (!steps || range_id(r) > range_id(steps)))
          steps = r;
    }
    return steps;
  }

  // One coordinate of what a step reads: a range, taken whole or a line at a time.
  struct Coordinate {
    Node range;
    std::int64_t count, step;
  };

  // The lines of one load that the step `depth` further on reads, as an effect in the loops around the store;
  // where they are many, in those of the sum's `steps`.
  Node fetch_of(Node load, Node range, std::int64_t depth, Node store, Node steps) {
    Node index = load.arg(1);
    if (!depends_on(index, range)) return Node();
    for (Node n : toposort(index))
      if (n.is(Op::Load)) return Node();
    std::vector<Coordinate> coordinates;
    const std::int64_t line = std::max<std::int64_t>(kLineBytes / load.dtype().bytes(), 1);
    std::int64_t lines = 1;
    bool moves = false;
    for (const Term& term : linear(index).terms) moves |= term.node == range && term.coefficient != 0;
    if (!moves) return Node();
    for (Node r : ranges_of(index)) {
      if (r == range || (has(ranges_of(store), r) && range_id(r) < range_id(range))) continue;
      if (!r.arg(0).is_const() || range_id(r) < range_id(range)) return Node();
      std::int64_t step = 1;
      for (const Term& term : linear(index).terms)
        if (term.node == r && (term.coefficient == 1 || term.coefficient == -1)) step = line;
      const std::int64_t count = (r.arg(0).const_int() + step - 1) / step;
      if (count > 1) coordinates.push_back({r, count, step});
      lines *= std::max<std::int64_t>(count, 1);
    }
    // Side by side last, so that neighbours follow each other.
    std::stable_sort(coordinates.begin(), coordinates.end(),
                     [](const Coordinate& a, const Coordinate& b) { return a.step < b.step; });
    Node pass = index_const(0);
    std::int64_t passes = 1;
    for (Node r : ranges_of(store)) {
      if (range_id(r) <= range_id(range) || !is_loop(r) || !r.arg(0).is_const() || has(ranges_of(index), r))
        continue;
      pass = pass * index_const(r.arg(0).const_int()) + r;
      passes *= r.arg(0).const_int();
    }
    if (passes < 1 || lines < 1) return Node();
    const std::int64_t each = (lines + passes - 1) / passes;
    if (each > kMostLines) return Node();
    SmallVector<Node, 1> own;
    Node number = pass;
    if (steps && each > kAtOnce && steps.arg(0).const_int() >= each) {
      const std::int64_t every = steps.arg(0).const_int() / each;
      number = pass * index_const(each) + min(floor_div(steps, index_const(every)), index_const(each - 1));
    } else if (each > 1) {
      own.push_back(lathe::range(index_const(each), ids_.range++, RangeKind::Loop));
      number = pass * index_const(each) + own[0];
    }
    if (each * passes > lines) number = min(number, index_const(lines - 1));
    NodeMap<Node> map;
    map.try_emplace(range, range + index_const(depth));
    for (std::size_t i = coordinates.size(); i-- > 0;) {
      const Coordinate& c = coordinates[i];
      Node at = i == 0 ? number : floor_mod(number, index_const(c.count));
      if (i > 0) number = floor_div(number, index_const(c.count));
      map.try_emplace(c.range, c.step == 1 ? at : at * index_const(c.step));
    }
    for (Node r : ranges_of(index))
      if (!map.contains(r) && !(has(ranges_of(store), r) && range_id(r) < range_id(range)))
        map.try_emplace(r, index_const(0));
    Node fetch = prefetch(load.arg(0), substitute_free(index, map));
    return own.empty() ? fetch : end(fetch, own);
  }

  // A reduce whose sums stay in registers: each load of what is read once, row after row, prefetches the
  // lines that it reads `depth` steps further on. That is soon, so they go to L1.
  Node in_sums(Node range, std::int64_t depth) {
    NodeMap<Node> map;
    for (Node reduce : order_) {
      const std::span<const Node> closed =
          reduce.is(Op::Reduce) ? closed_ranges(reduce) : std::span<const Node>();
      if (!has(closed, range)) continue;
      for (Node n : toposort(reduce.arg(0))) {
        if (!n.is(Op::Load) || !n.arg(0).is(Op::Param) || written_.contains(n.arg(0))) continue;
        bool once = true;
        for (Node r : ranges_of(reduce)) once &= depends_on(n.arg(1), r);
        if (!once || map.contains(n)) continue;
        const SmallVector<Node, 8> fetches = lines_ahead(n, range, depth);
        if (fetches.empty()) continue;
        map.try_emplace(n, after_fetches(n, fetches));
      }
    }
    return map.empty() ? kernel_ : substitute(kernel_, map);
  }
  // Ranges that are copied or lanes and are contiguous are taken together, a line at a time. Lines of all
  // copies are prefetched before the first of them is read, so that nothing is between the reads.
  SmallVector<Node, 8> lines_ahead(Node load, Node range, std::int64_t depth) {
    Node index = load.arg(1);
    for (Node n : toposort(index))
      if (n.is(Op::Load)) return {};
    const auto& terms = linear(index).terms;
    auto step_of = [&](Node r) {
      std::int64_t step = 0;
      for (const Term& term : terms)
        if (term.node == r) step = term.coefficient;
      return step;
    };
    if (step_of(range) == 0) return {};
    NodeMap<Node> map;
    map.try_emplace(range, range + index_const(depth));
    std::int64_t span = 1;
    for (bool grown = true; grown;) {
      grown = false;
      for (Node r : ranges_of(index)) {
        const bool copied = in_registers(r);
        if (!copied || map.contains(r) || !r.arg(0).is_const() || step_of(r) != span) continue;
        map.try_emplace(r, index_const(0));
        span *= r.arg(0).const_int();
        grown = true;
      }
    }
    const std::int64_t line = std::max<std::int64_t>(kLineBytes / load.dtype().bytes(), 1);
    if (span * 2 <= line) return {};  // most steps would prefetch a line again
    SmallVector<Node, 4> copied;
    for (Node r : ranges_of(index)) {
      if ((range_kind(r) != RangeKind::Upcast && range_kind(r) != RangeKind::Unroll) || map.contains(r))
        continue;
      copied.push_back(lathe::range(r.arg(0), ids_.range++, range_kind(r)));
      map.try_emplace(r, copied.back());
    }
    Node there = substitute_free(index, map);
    SmallVector<Node, 8> fetches;
    for (std::int64_t at = 0; at < span; at += line)
      fetches.push_back(end(soon(load.arg(0), at == 0 ? there : there + index_const(at)), copied));
    return fetches;
  }

  Node kernel_;
  std::vector<Node> order_;
  FreshIds ids_;
  NodeMap<char> written_;
};

}  // namespace

Node prefetch_tiles(Node kernel, std::span<const Pipelined> loops) {
  for (const Pipelined& loop : loops) kernel = Prefetcher(kernel).run(loop);
  return kernel;
}

}  // namespace lathe
