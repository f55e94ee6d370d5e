// Random tensor graphs, scheduled and run kernel by kernel on REF, against REF on the graph itself. Integers,
// so that results must be equal to the bit whatever the order of a sum.
#include <gtest/gtest.h>

#include <random>

#include "graphs.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "reference/reference.h"
#include "reference/tensor_eval.h"
#include "schedule/schedule.h"
#include "support/fuzz.h"

namespace lathe {
namespace {

using reference::Array;
using reference::BufferContents;

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : rng_(seed) {}

  int pick(int n) { return static_cast<int>(rng_() % static_cast<std::uint64_t>(n)); }

  Node leaf() {
    std::vector<std::int64_t> shape;
    std::int64_t n = 1;
    for (int i = pick(4); i-- > 0;) {
      static const std::int64_t kSizes[] = {1, 2, 3, 4, 5, 6};
      shape.push_back(kSizes[pick(6)]);
      n *= shape.back();
    }
    Node b = new_buffer(dtypes::Int32, n, "CPU");
    Array data(dtypes::Int32, n);
    for (std::int64_t i = 0; i < n; ++i) data.set(i, {pick(19) - 9, 0});
    contents[b] = data;
    buffers.push_back(b);
    std::vector<Node> dims_;
    for (std::int64_t s : shape) dims_.push_back(index_const(s));
    return reshape(b, dims_);
  }

  std::vector<std::int64_t> shape_of(Node n) {
    std::vector<std::int64_t> s;
    for (Node d : n.shape()) s.push_back(d.int_attr());
    return s;
  }
  static std::vector<Node> nodes(const std::vector<std::int64_t>& v) {
    std::vector<Node> out;
    for (std::int64_t s : v) out.push_back(index_const(s));
    return out;
  }

  // Another tensor brought to `shape` by cutting, padding and growing it.
  Node fit(Node x, const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> s = shape_of(x);
    if (s == shape) return x;
    std::int64_t n = 1;
    for (std::int64_t d : s) n *= d;
    x = reshape(x, nodes({n}));
    std::int64_t want = 1;
    for (std::int64_t d : shape) want *= d;
    if (n > want) x = shrink(x, nodes({n - want}), nodes({n}));
    if (n < want) x = pad(x, nodes({(want - n) / 2}), nodes({want - n - (want - n) / 2}));
    return reshape(x, nodes(shape));
  }

  Node movement(Node x) {
    std::vector<std::int64_t> s = shape_of(x);
    auto axis = s.empty() ? 0 : static_cast<std::size_t>(pick(static_cast<int>(s.size())));
    switch (pick(8)) {
      case 0: {  // reshape: merge or split
        std::int64_t n = 1;
        for (std::int64_t d : s) n *= d;
        for (std::int64_t f : {2, 3, 4, 5})
          if (n % f == 0 && pick(2)) return reshape(x, nodes({n / f, f}));
        return reshape(x, nodes({n}));
      }
      case 1: {
        std::vector<std::int64_t> order;
        for (std::size_t i = 0; i < s.size(); ++i) order.push_back(static_cast<std::int64_t>(i));
        std::shuffle(order.begin(), order.end(), rng_);
        return s.empty() ? x : permute(x, order);
      }
      case 2: {
        std::vector<std::int64_t> low, high;
        for (std::size_t i = 0; i < s.size(); ++i) low.push_back(pick(3)), high.push_back(pick(2));
        return s.empty() ? x : pad(x, nodes(low), nodes(high));
      }
      case 3: {
        std::vector<std::int64_t> begin, end;
        for (std::int64_t d : s) {
          std::int64_t b = pick(static_cast<int>(d));
          begin.push_back(b);
          end.push_back(b + 1 + pick(static_cast<int>(d - b)));
        }
        return s.empty() ? x : shrink(x, nodes(begin), nodes(end));
      }
      case 4: return s.empty() ? x : flip(x, std::vector<std::int64_t>{static_cast<std::int64_t>(axis)});
      case 5: {
        for (std::int64_t& d : s)
          if (d == 1) d = 1 + pick(4);
        return s.empty() ? x : expand(x, nodes(s));
      }
      default: {  // windows, then maybe their transpose
        if (s.empty() || s[axis] < 2) return x;
        std::int64_t n = s[axis], k = 1 + pick(3), stride = 1 + pick(2), dilation = 1 + pick(2);
        std::int64_t span = (k - 1) * dilation + 1;
        if (span > n) return x;
        std::vector<std::int64_t> wide = s;
        wide.push_back(1);
        x = reshape(x, nodes(wide));
        wide.back() = k;
        x = expand(x, nodes(wide));
        auto a = static_cast<std::int64_t>(axis), ka = static_cast<std::int64_t>(s.size());
        x = skew(x, a, ka, stride, dilation, index_const((n - span) / stride + 1));
        if (pick(2)) x = unskew(x, a, ka, stride, dilation, index_const(n));
        return pick(2) ? x : reduce_axes(Op::Add, x, std::vector<std::int64_t>{ka});
      }
    }
  }

  Node list_of(const std::vector<std::int64_t>& values) {
    Node b = new_buffer(dtypes::Int32, static_cast<std::int64_t>(values.size()), "CPU");
    Array data(dtypes::Int32, static_cast<std::int64_t>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) data.set(static_cast<std::int64_t>(i), {values[i], 0});
    contents[b] = data;
    buffers.push_back(b);
    return b;
  }

  // x at positions that y holds, which may be outside; half of the time with a shared first axis.
  Node taken(Node x, Node y) {
    std::vector<std::int64_t> s = shape_of(x);
    if (s.empty()) return x;
    const std::int64_t shared = s.size() > 1 && pick(2) ? 1 : 0;
    std::vector<std::int64_t> index;
    if (shared) index.push_back(s[0]);
    for (int i = pick(3); i-- > 0;) index.push_back(1 + pick(4));
    return take(x, fit(y, index), shared);
  }

  // Rows chosen at random, some outside, with the lists that say the same.
  Node by_rows(Node x) {
    std::vector<std::int64_t> s = shape_of(x);
    if (s.empty()) return x;
    const std::int64_t rows = 1 + pick(5);
    std::vector<std::int64_t> row, order, begin, end;
    for (std::int64_t t = 0; t < s[0]; ++t) row.push_back(pick(static_cast<int>(rows) + 2) - 1);
    for (std::int64_t v = 0; v < rows; ++v) {
      begin.push_back(static_cast<std::int64_t>(order.size()));
      for (std::int64_t t = 0; t < s[0]; ++t)
        if (row[static_cast<std::size_t>(t)] == v) order.push_back(t);
      end.push_back(static_cast<std::int64_t>(order.size()));
    }
    order.resize(row.size(), 0);
    static const Op kOps[] = {Op::Add, Op::Max, Op::Mul};
    return ragged_reduce(kOps[pick(3)], x, list_of(row), list_of(order), list_of(begin), list_of(end));
  }

  // Elements combined by rows that y names, some of them outside.
  Node scattered(Node x, Node y) {
    std::vector<std::int64_t> s = shape_of(x);
    if (s.empty()) return x;
    const std::size_t axes = s.size() > 1 && pick(2) ? 2 : 1;
    static const Op kOps[] = {Op::Add, Op::Max, Op::Mul};
    Node index = fit(y, {s.begin(), s.begin() + static_cast<std::ptrdiff_t>(axes)});
    return scatter(kOps[pick(3)], x, index, index_const(1 + pick(5)));
  }

  // Running values along an axis, half of the time by groups.
  Node scanned(Node x, Node y) {
    std::vector<std::int64_t> s = shape_of(x);
    if (s.empty()) return x;
    static const Op kOps[] = {Op::Add, Op::Max, Op::Mul};
    const Op op = kOps[pick(3)];
    const std::int64_t axis = pick(static_cast<int>(s.size()));
    return pick(2) ? scan(op, x, axis) : scan_by(op, x, axis, fit(y, s), index_const(1 + pick(4)));
  }

  Node step(std::vector<Node>& pool) {
    Node x = pool[static_cast<std::size_t>(pick(static_cast<int>(pool.size())))];
    Node y = pool[static_cast<std::size_t>(pick(static_cast<int>(pool.size())))];
    std::vector<std::int64_t> s = shape_of(x);
    Node c = int_const(dtypes::Int32, pick(7) - 3);
    switch (pick(17)) {
      case 15: return scattered(x, y);
      case 16: return scanned(x, y);
      case 13: return taken(x, y);
      case 14: return by_rows(x);
      case 0: return x + fit(y, s);
      case 1: return x * fit(y, s);
      case 2: return max(x, fit(y, s));
      case 3: return where(less(x, fit(y, s)), c, x);
      case 4: return x * c + int_const(dtypes::Int32, 1);
      case 5: {
        std::vector<std::int64_t> axes;
        for (std::size_t i = 0; i < s.size(); ++i)
          if (pick(2)) axes.push_back(static_cast<std::int64_t>(i));
        static const Op kOps[] = {Op::Add, Op::Add, Op::Max, Op::Min, Op::Mul};
        return axes.empty() ? x : reduce_axes(kOps[pick(5)], x, axes);
      }
      case 6: return pick(4) == 0 ? contiguous(x) : x + c;
      case 8: {  // a reduce used again along what it reduced
        if (s.empty()) return x;
        std::vector<std::int64_t> axes{static_cast<std::int64_t>(s.size()) - 1};
        if (s.size() > 1 && pick(3) == 0) axes.insert(axes.begin(), pick(static_cast<int>(s.size()) - 1));
        static const Op kOps[] = {Op::Add, Op::Max, Op::Min};
        Node row = expand(reduce_axes(kOps[pick(3)], pick(2) ? x : x * fit(y, s), axes), nodes(s));
        return pick(2) ? x + row : x * row;
      }
      case 7: {
        if (s.empty()) return x;
        std::vector<std::int64_t> one(s.size(), 1);
        std::size_t axis = static_cast<std::size_t>(pick(static_cast<int>(s.size())));
        one[axis] = s[axis];
        Node iota = expand(reshape(arange(dtypes::Int32, index_const(s[axis])), nodes(one)), nodes(s));
        return pick(2) ? where(equal(iota, fit(y, s)), x, int_const(dtypes::Int32, 0)) : iota + x;
      }
      default: return movement(x);
    }
  }

  std::vector<Node> graph() {
    std::vector<Node> pool{leaf(), leaf()};
    int n = 2 + pick(12);
    for (int i = 0; i < n; ++i) {
      Node next = step(pool);
      if (numel_max(next) <= 3000 && next.rank() <= 6) pool.push_back(next);
    }
    return pool;
  }

  BufferContents contents;
  std::vector<Node> buffers;

 private:
  std::mt19937_64 rng_;
};

std::string run(const Schedule& schedule, BufferContents& memory) {
  for (const Step& step : schedule.steps) {
    for (Node b : step.buffers)
      if (!memory.contains(b)) memory[b] = Array(b.dtype(), buffer_size(b));
    if (step.is_copy()) {
      memory[step.buffers[0]] = memory[step.buffers[1]];
      continue;
    }
    std::vector<reference::View> views;
    for (Node b : step.buffers) views.push_back(memory[b].view());
    reference::EvalReport report = reference::kernel_eval(step.ast, views);
    if (!report.ok())
      return report.faults.empty() ? "incomplete" : report.faults[0] + "\n" + print_graph(step.ast);
  }
  return "";
}

TEST(ScheduleFuzz, RandomGraphsEqualTheirReference) {
  for (test::FuzzSeeds seeds(1500); seeds.next();) {
    const std::uint64_t seed = seeds.seed();
    Scope scope;
    Generator g(seed);
    // The last value; in every other graph some others too, which then may share kernels.
    std::vector<Node> pool = g.graph(), targets{pool.back()};
    if (seed % 2 == 0)
      for (std::size_t i = 0; i + 1 < pool.size(); ++i)
        if (g.pick(2)) targets.push_back(pool[i]);
    Schedule s = schedule(targets);
    BufferContents memory = g.contents;
    std::string fault = run(s, memory);
    ASSERT_EQ(fault, "") << "FUZZ_SEED=" << seed << "\n" << print_graph(targets[0]);
    std::vector<Node> results(s.results.begin(), s.results.end());
    auto got = reference::tensor_eval(results, memory);
    auto want = reference::tensor_eval(targets, g.contents);
    for (std::size_t i = 0; i < targets.size(); ++i)
      ASSERT_TRUE(got[i].sizes == want[i].sizes && got[i].data == want[i].data)
          << "FUZZ_SEED=" << seed << " target " << i << "\n"
          << print_graph(targets[i]);
  }
}

// Stores into random views of a few buffers, values reading any version: against versions kept apart.
TEST(ScheduleFuzz, RandomStoresEqualTheirReference) {
  for (test::FuzzSeeds seeds(600); seeds.next();) {
    const std::uint64_t seed = seeds.seed();
    Scope scope;
    Generator g(seed * 7919);
    std::vector<Node> now;
    for (int i = 0; i < 3; ++i) {
      Node b = new_buffer(dtypes::Int32, 12, "CPU");
      Array data(dtypes::Int32, 12);
      for (std::int64_t k = 0; k < 12; ++k) data.set(k, {g.pick(19) - 9, 0});
      g.contents[b] = data;
      now.push_back(b);
    }
    std::vector<Node> lazy;
    int n = 1 + g.pick(6);
    for (int i = 0; i < n; ++i) {
      auto at = static_cast<std::size_t>(g.pick(3));
      Node target = now[at], view = target, from = now[static_cast<std::size_t>(g.pick(3))];
      if (g.pick(4) == 0 && !lazy.empty())
        from = lazy[static_cast<std::size_t>(g.pick(static_cast<int>(lazy.size())))];
      for (int m = g.pick(3); m-- > 0;) {
        std::vector<std::int64_t> s = g.shape_of(view);
        switch (g.pick(4)) {
          case 0:
            view = s.size() == 1 && s[0] % 3 == 0 ? reshape(view, Generator::nodes({s[0] / 3, 3})) : view;
            break;
          case 1: view = s.size() == 2 ? permute(view, std::vector<std::int64_t>{1, 0}) : view; break;
          case 2: view = flip(view, std::vector<std::int64_t>{0}); break;
          default:
            view = s[0] > 2 ? shrink(view,
                                     Generator::nodes(s.size() == 2 ? std::vector<std::int64_t>{1, 0}
                                                                    : std::vector<std::int64_t>{1}),
                                     Generator::nodes(s))
                            : view;
        }
      }
      Node value = g.fit(from, g.shape_of(view));
      if (g.pick(2)) value = value + int_const(dtypes::Int32, 1);
      if (g.pick(3) == 0) value = value + g.fit(now[static_cast<std::size_t>(g.pick(3))], g.shape_of(view));
      lazy.push_back(value);
      Node effect = intern(Op::Store, dtypes::Void, {view, value});
      now[at] = after(target, {&effect, 1});
    }
    std::vector<Node> targets = now;
    for (Node v : lazy)
      if (g.pick(3) == 0) targets.push_back(v);
    Schedule s = schedule(targets);
    auto want = reference::tensor_eval(targets, g.contents);
    BufferContents memory = g.contents;
    std::string fault = run(s, memory);
    ASSERT_EQ(fault, "") << "FUZZ_SEED=" << seed;
    std::vector<Node> results(s.results.begin(), s.results.end());
    auto got = reference::tensor_eval(results, memory);
    for (std::size_t i = 0; i < targets.size(); ++i)
      ASSERT_TRUE(got[i].data == want[i].data) << "FUZZ_SEED=" << seed << " target " << i << "\n"
                                               << print_graph(targets[i]);
  }
}

}  // namespace
}  // namespace lathe
