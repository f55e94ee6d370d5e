// The text form: what is printed reads back as the same interned nodes, and what is malformed is refused by
// line.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/walk.h"

namespace lathe {
namespace {

constexpr const char* kDocExample = R"(%0 = Const.idx 16 ()
%1 = Range.idx [0, global] (%0)
%2 = Param.f32 [1, 16] ()
%3 = Load.f32 (%2, %1)
%4 = Const.f32 2 ()
%5 = Mul.f32 (%3, %4)
%6 = Param.f32 [0, 16] ()
%7 = Store.void (%6, %1, %5)
%8 = End.void (%7, %1)
%9 = Sink.void (%8)
)";

TEST(Text, TheExampleOfTheDocumentationRoundTripsUpToTheOrderOfLeaves) {
  Scope scope;
  Node root = parse_graph(kDocExample);
  std::string printed = print_graph(root);
  EXPECT_EQ(parse_graph(printed), root) << printed;
  EXPECT_EQ(print_graph(parse_graph(printed)), printed);
}

TEST(Text, NumbersMayStandForNamesOfKindsSpacesAndOps) {
  Scope scope;
  EXPECT_EQ(parse_graph("%n = Const.idx 4 ()\n%r = Range.idx [3, 4] (%n)"),
            parse_graph("%n = Const.idx 4 ()\n%r = Range.idx [3, reduce] (%n)"));
  Node shared = define(dtypes::Float32, 7, 32, Space::Shared);
  EXPECT_EQ(print_graph(shared), "%0 = Define.f32 [7, 32, shared] ()\n");
  EXPECT_EQ(parse_graph(print_graph(shared)), shared);
}

TEST(Text, FloatConstantsAreExact) {
  Scope scope;
  const double tiny = std::numeric_limits<double>::denorm_min();
  for (double v :
       {0.0, -0.0, 1.0, -2.5, 0.1, tiny, 1e300, 3e15, -1e15, double(INFINITY), -double(INFINITY),
        std::bit_cast<double>(0x7ff8000000000000ull), std::bit_cast<double>(0xfff8000000000123ull)}) {
    Node c = intern(Op::Const, dtypes::Float64, {}, Attr::of(v));
    EXPECT_EQ(parse_graph(print_graph(c)), c) << print_graph(c);
  }
}

TEST(Text, StringsAreEscaped) {
  Scope scope;
  Node v = variable("a \"quoted\\ name\"\n\x01 ü", -3, 9);
  std::string text = print_graph(v);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(parse_graph(text), v) << text;
}

TEST(Text, TensorGraphsKeepBuffersShapesAndReduceAxes) {
  Scope scope;
  Node n = variable("n", 1, 8);
  Node a = buffer_with_id(77, dtypes::Float16, 24, "CPU");
  Node sizes[] = {index_const(4), index_const(6)};
  Node x = reshape(a, sizes);
  std::int64_t axes[] = {1};
  Node sum = reduce_axes(Op::Add, cast(x, dtypes::Float32), axes);
  Node wide[] = {index_const(4), n};
  Node big = expand(sum, wide);
  Node root = sink(std::vector<Node>{contiguous(big), copy_to(sum, "CPU:1")});
  Node back = parse_graph(print_graph(root));
  EXPECT_EQ(back, root) << print_graph(root);
  EXPECT_EQ(back.arg(0).arg(0).shape()[1], n);
}

// A random graph of scalar ops, casts, loads and vectors over a few leaves.
Node random_graph(std::mt19937_64& random, int size) {
  auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const DType dtypes_used[] = {dtypes::Float32, dtypes::BFloat16, dtypes::Int32, dtypes::UInt8,
                               dtypes::Index};
  std::vector<Node> pool;
  for (DType d : dtypes_used) {
    pool.push_back(param(d, static_cast<std::int64_t>(pool.size()), 64));
    pool.push_back(number(d, static_cast<double>(pick(100)) / 3));
  }
  std::vector<Node> values;
  Node i = range(index_const(8), 0, RangeKind::Global);
  for (std::size_t k = 0; k < pool.size(); ++k)
    values.push_back(pool[k].is(Op::Param) ? load(pool[k], i) : pool[k]);
  while (static_cast<int>(values.size()) < size) {
    Node x = values[pick(values.size())], y = values[pick(values.size())];
    switch (pick(6)) {
      case 0: values.push_back(cast(x, dtypes_used[pick(5)])); break;
      case 1:
        if (x.dtype().lanes == 1) values.push_back(splat(x, 4));
        break;
      case 2: values.push_back(lane(x, 0)); break;
      default:
        if (x.dtype() == y.dtype() && x.dtype().lanes == 1) {
          Op op = static_cast<Op>(pick(kScalarOps));
          const OpInfo& row = info(op);
          bool fits = x.dtype().is_float() ? row.on_float : row.on_int;
          if (row.args == 2 && fits) values.push_back(apply(op, x, y));
        }
    }
  }
  std::vector<Node> effects;
  for (Node v : values)
    effects.push_back(end(store(param(v.dtype().element(), 100, 999), i, v), std::span(&i, 1)));
  return sink(effects);
}

TEST(Text, RandomGraphsRoundTrip) {
  std::uint64_t seed = 20240611;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    Scope scope;
    Node root = random_graph(random, 20 + round * 4);
    std::string text = print_graph(root);
    ASSERT_EQ(parse_graph(text), root) << "seed " << seed << " round " << round << "\n" << text;
  }
}

TEST(Text, AChainOfAHundredThousandNodesRoundTrips) {
  Scope scope;
  Node x = variable("v", 0, 1);
  for (int i = 0; i < 100000; ++i) x = intern(Op::Add, dtypes::Index, {x, x});
  EXPECT_EQ(parse_graph(print_graph(x)), x);
}

struct Refusal {
  const char* text;
  const char* message;
};

TEST(Text, MalformedTextIsRefusedWithLineAndExpectation) {
  Scope scope;
  const Refusal rows[] = {
      {"", "the text has no node"},
      {"%0 = Const.idx 1 ()\n%1 = Bogus.idx (%0)", "line 2, column 11: 'Bogus' is not an op"},
      {"%0 = Const.f33 1 ()", "'f33' is not a dtype"},
      {"%0 = Const.idx 1.5 ()", "expected an integer, found '1.5'"},
      {"%0 = Const.f32 x ()", "expected a number, found 'x'"},
      {"%0 = Const.idx 1 (", "expected '%', found the end of the line"},
      {"%0 = Const.idx 1 () 7", "expected the end of the line, found '7'"},
      {"%0 = Const.idx 1 ()\n%0 = Const.idx 2 ()", "%0 is defined twice"},
      {"%1 = Neg.i32 (%0)", "%0 is not defined above"},
      {"%0 = Const.idx 1 ()\n%1 = Add.idx (%0)", "Add takes 2 operands, not 1"},
      {"%0 = Const.idx 1 ()\n%1 = Load.f32 (%0)", "Load takes at least 2 operands, not 1"},
      {"%0 = Param.f32 [1] ()", "Param needs the attribute [slot, size]"},
      {"%0 = Var.idx \"n [1, 2] ()", "the text has no closing quote"},
      {"%0 = Const.idx 1 ()\n%1 = Range.idx [0, sideways] (%0)", "found 'sideways'"},
      {"%0 = Const.idx 1 ()\n%1 = Range.idx [0, 99] (%0)", "Range needs the attribute [id, kind]"},
      {"%0 = Const.u32 1 ()\n%1 = Const.f32 1 ()\n%2 = Dot.f32 \"bf16\" [4] (%0, %0, %1)",
       "Dot needs the attribute \"kind\", \"kind\" [m, n, k] or \"kind\" [m, n, k, threads]"},
      {"%0 = Const.u32 1 ()\n%1 = Const.f32 1 ()\n%2 = Dot.f32 \"bf16\" [4, 65536, 1] (%0, %0, %1)",
       "Dot needs the attribute \"kind\", \"kind\" [m, n, k] or \"kind\" [m, n, k, threads]"},
      {"%0 = Buffer.f32 \"CPU\" [1, 4] ()\n%1 = Permute.f32 [1] (%0)",
       "Permute names axis 1 of a value of rank 1"},
      {"%0 = Buffer.f32 \"CPU\" [1, 4] ()\n%1 = Pad.f32 (%0)",
       "Pad of a value of rank 1 takes 2 sizes, not 0"},
      {"%0 = Const.i32 99999999999999999999 ()", "expected an integer"},
  };
  for (const Refusal& row : rows) {
    try {
      parse_graph(row.text);
      ADD_FAILURE() << "accepted: " << row.text;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(row.message), std::string::npos)
          << row.text << "\ngave\n"
          << error.what() << "\nwanted\n"
          << row.message;
    }
  }
}

// Whatever the text, reading it gives nodes or a UserError: golden files, caches and repros may be damaged.
TEST(Text, DamagedTextIsReadOrRefusedButNeverCrashes) {
  std::uint64_t seed = 31;
  std::mt19937_64 random(seed);
  auto pick = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::string letters = "%=.,()[]\" -0159axbifgRF\n";
  Scope scope;
  std::string graph = print_graph(random_graph(random, 40)) + R"(%t1 = Const.idx 3 ()
%t2 = Buffer.f32 "CPU" [1, 6] ()
%t3 = Reshape.f32 (%t2, %t1, %t1)
%t4 = Permute.f32 [1, 0] (%t3)
%t5 = Reduce.f32 [Add, 1] (%t4)
%t6 = Skew.f32 [0, 1, 2, 1] (%t4, %t1)
%t7 = Carry.f32 [0, 0, 0] ()
%t8 = Range.idx [5, reduce] (%t1)
%t9 = Fold.void [0, 1, 0] (%t7, %t7, %t8)
%t10 = Get.f32 0 (%t9)
%t11 = Bitcast.u8 (%t2)
%t12 = Pad.f32 (%t2, %t1, %t1)
)";
  int read = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = graph;
    for (std::size_t k = 0, n = 1 + pick(4); k < n; ++k) {
      std::size_t at = pick(text.size());
      switch (pick(3)) {
        case 0: text[at] = letters[pick(letters.size())]; break;
        case 1: text.erase(at, 1 + pick(5)); break;
        default: text.insert(at, 1, letters[pick(letters.size())]);
      }
    }
    try {
      parse_nodes(text);
      ++read;
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500) << "seed " << seed;
  EXPECT_GT(read, 50) << "seed " << seed;
}

Program small_program() {
  Program p;
  p.name = "add_16";
  p.params = {{0, dtypes::Float32, 16, false, true}, {1, dtypes::Float32, 16, true, false}};
  Node n = variable("n", 1, 16);
  p.variables.push_back(n);
  Node n32 = cast(n, dtypes::Int32);
  p.groups[0] = n;
  p.flops = 16;
  p.bytes = 0.1;
  Node count = intern(Op::Range, dtypes::Int32, {n32}, range(index_const(4), 0, RangeKind::Loop).attr());
  Node x = load(param(dtypes::Float32, 1, 16), count);
  Node s = store(param(dtypes::Float32, 0, 16), count, x);
  for (Node node : {n32, count, x, s, intern(Op::End, dtypes::Void, {count})}) p.code.push_back(node);
  return p;
}

void expect_equal(const Program& a, const Program& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.code, b.code);
  EXPECT_EQ(a.variables, b.variables);
  EXPECT_EQ(a.groups, b.groups);
  EXPECT_EQ(a.locals, b.locals);
  EXPECT_EQ(a.threads, b.threads);
  EXPECT_EQ(a.shared_bytes, b.shared_bytes);
  EXPECT_EQ(a.flops, b.flops);
  EXPECT_EQ(a.bytes, b.bytes);
  ASSERT_EQ(a.params.size(), b.params.size());
  for (std::size_t i = 0; i < a.params.size(); ++i) {
    EXPECT_EQ(a.params[i].slot, b.params[i].slot);
    EXPECT_EQ(a.params[i].dtype, b.params[i].dtype);
    EXPECT_EQ(a.params[i].size, b.params[i].size);
    EXPECT_EQ(a.params[i].reads, b.params[i].reads);
    EXPECT_EQ(a.params[i].writes, b.params[i].writes);
  }
}

TEST(Text, ProgramsRoundTrip) {
  Scope scope;
  Program p = small_program();
  std::string text = print_program(p);
  expect_equal(parse_program(text), p);
  EXPECT_EQ(print_program(parse_program(text)), text);
}

TEST(Text, AProgramWhoseOrderIsWrongStillRoundTrips) {
  Scope scope;
  Program p = small_program();
  std::swap(p.code[1], p.code[3]);
  p.code.push_back(p.code[2]);
  expect_equal(parse_program(print_program(p)), p);
}

TEST(Text, ANodeOnItsOwnShowsItsOperandsByKind) {
  Scope scope;
  Node i = range(index_const(8), 2, RangeKind::Loop);
  EXPECT_EQ(print_node(load(param(dtypes::Float32, 1, 8), i)),
            "Load.f32 (Param.f32 [1, 8], Range.idx [2, loop])");
}

}  // namespace
}  // namespace lathe
