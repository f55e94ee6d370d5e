#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/shape.h"
#include "ir/walk.h"

namespace lathe {
namespace {

TEST(Node, EqualStructureIsTheSameHandle) {
  Scope scope;
  Node a = variable("a", 0, 9), b = variable("b", 0, 9);
  EXPECT_EQ(a + b, b + a);
  EXPECT_EQ(a + b + index_const(3), index_const(3) + (b + a));
  EXPECT_NE(floor_div(a, b), floor_div(b, a));
  EXPECT_NE(float_const(dtypes::Float32, 0.0), float_const(dtypes::Float32, -0.0));
  EXPECT_EQ(float_const(dtypes::Float32, NAN), float_const(dtypes::Float32, NAN));
}

TEST(Node, DiesWhenNoReferenceReachesItAndABufferSaysSo) {
  static std::vector<std::int64_t> died;
  set_buffer_death_hook([](std::int64_t id) { died.push_back(id); });
  std::uint64_t before = interner_stats().live;
  std::int64_t id = 0;
  {
    NodeRef keep;
    {
      Scope scope;
      Node buffer = new_buffer(dtypes::Float32, 16, "CPU");
      id = buffer_id(buffer);
      keep = buffer + buffer;
    }
    EXPECT_TRUE(died.empty());
    EXPECT_EQ(keep->op(), Op::Add);
  }
  EXPECT_EQ(died, std::vector<std::int64_t>{id});
  EXPECT_EQ(interner_stats().live, before);
  set_buffer_death_hook(nullptr);
}

TEST(Node, AChainOfAMillionNodesIsBuiltWalkedAndFreedWithoutRecursion) {
  std::uint64_t before = interner_stats().live;
  {
    NodeRef keep;
    {
      Scope scope;
      Node n = new_buffer(dtypes::Float32, 4, "CPU");
      for (int i = 0; i < 1000000; ++i) n = apply(Op::Sqrt, n);
      keep = n;
    }
    EXPECT_EQ(toposort(keep.node()).size(), 1000001u);
    EXPECT_EQ(ranges_of(keep.node()).size(), 0u);
  }
  EXPECT_LE(interner_stats().live, before + 1);  // the shared empty set of ranges may be new
}

TEST(Node, InterningFromManyThreadsGivesOneNode) {
  std::vector<NodeRef> made(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < made.size(); ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 200; ++round) {
        Scope scope;
        Node n = variable("x", 0, 100);
        for (int i = 0; i < 100; ++i) n = floor_mod(n * index_const(3) + index_const(i), index_const(97));
        made[t] = n;
      }
    });
  for (std::thread& t : threads) t.join();
  for (const NodeRef& n : made) EXPECT_EQ(n.node(), made[0].node());
}

TEST(Node, BuffersOfEqualStructureShareAKeyButNotAHandle) {
  Scope scope;
  Node a = new_buffer(dtypes::Float32, 8, "CPU"), b = new_buffer(dtypes::Float32, 8, "CPU");
  EXPECT_NE(a, b);
  EXPECT_EQ(a.key(), b.key());
  EXPECT_EQ((a * b).arg(0), a);  // equal keys keep the order given
}

// A size has its terms in one order whether its variables are bound or not: it is compared node by node.
TEST(Node, ABoundVariableHasTheKeyOfTheVariable) {
  Scope scope;
  for (const char* name : {"i", "j", "m", "n", "start", "length"}) {
    const Node v = variable(name, 1, 9), bound = intern(Op::Bind, dtypes::Index, {v, index_const(3)});
    EXPECT_NE(bound, v);
    EXPECT_EQ(bound.key(), v.key());
    EXPECT_EQ((bound * index_const(-1) + index_const(3)).key(), (v * index_const(-1) + index_const(3)).key());
  }
}

TEST(Shape, FollowsMovementAndReduce) {
  Scope scope;
  Node x = new_buffer(dtypes::Float32, 24, "CPU");
  Node dims3[] = {index_const(2), index_const(3), index_const(4)};
  Node r = reshape(x, dims3);
  EXPECT_EQ(shape_text(r.shape()), "(2, 3, 4)");
  std::int64_t order[] = {2, 0, 1};
  EXPECT_EQ(shape_text(permute(r, order).shape()), "(4, 2, 3)");
  std::int64_t axes[] = {1};
  EXPECT_EQ(shape_text(reduce_axes(Op::Add, r, axes).shape()), "(2, 1, 4)");
  Node z = index_const(0), one = index_const(1);
  Node low[] = {z, one, z}, high[] = {one, one, z};
  EXPECT_EQ(shape_text(pad(r, low, high).shape()), "(3, 5, 4)");
  EXPECT_EQ(shape_text(bitcast(r, dtypes::Int8).shape()), "(2, 3, 16)");
  EXPECT_EQ((r * float_const(dtypes::Float32, 2)).shape_node(), r.shape_node());
}

TEST(Ranges, AReduceClosesItsRange) {
  Scope scope;
  Node i = range(index_const(4), 0, RangeKind::Global), k = range(index_const(8), 1, RangeKind::Reduce);
  Node e = load(param(dtypes::Float32, 1, 32), i * index_const(8) + k);
  EXPECT_EQ(ranges_of(e).size(), 2u);
  Node s = reduce_ranges(Op::Add, e, std::span(&k, 1));
  ASSERT_EQ(ranges_of(s).size(), 1u);
  EXPECT_EQ(ranges_of(s)[0], i);
}

}  // namespace
}  // namespace lathe
