// 64-bit integers as pairs of words, and division by constants as multiplication: on REF and on the CPU, for
// a target that is said to have neither, against ir/value.h.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include <fmt/format.h>

#include "codegen/codegen.h"
#include "cpu/harness.h"
#include "ir/walk.h"
#include "reference/reference.h"

namespace lathe::test {
namespace {

constexpr unsigned kSeed = 64;

Target words_target(bool words, bool multiplies) {
  Target t = backends::cpu_target("x86-64-v3");
  t.wide_integers = !words;
  t.divides_constants = !multiplies;
  return t;
}

// Edge values of the dtype, the borders of words and halves among them, and as many random ones of every
// length.
std::vector<Element> numbers_of(DType dtype, std::mt19937_64& random) {
  std::vector<Element> out = edge_values(dtype);
  if (dtype.is_float()) {
    for (int e = 0; e < 63; ++e)
      for (double sign : {1.0, -1.0})
        for (double step : {1.0, 1 - 0x1p-20, 1 + 0x1p-20}) {
          const double v = round_to(dtype, sign * step * std::ldexp(1.0, e));
          out.push_back({0, v});
        }
    return out;
  }
  if (dtype.is_bool()) return out;
  for (int bit = 0; bit < dtype.bits(); ++bit)
    for (std::int64_t near : {-1, 0, 1}) {
      const auto power = static_cast<std::int64_t>(std::uint64_t{1} << bit);
      out.push_back({wrap(dtype, static_cast<std::int64_t>(static_cast<std::uint64_t>(power) +
                                                           static_cast<std::uint64_t>(near))),
                     0});
    }
  for (int i = 0; i < 60; ++i)
    out.push_back(
        {wrap(dtype, static_cast<std::int64_t>(random() >> (random() % static_cast<unsigned>(dtype.bits())))),
         0});
  return out;
}

struct Numbers {
  std::vector<Element> x, y;
};
// Each of some with each of some, a multiple of 12 of them.
Numbers pairs_of(DType dtype, std::mt19937_64& random) {
  const std::vector<Element> all = numbers_of(dtype, random);
  Numbers out;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < 24; ++j) {
      out.x.push_back(all[i]);
      out.y.push_back(all[j < 12 ? (j * all.size() / 12) : random() % all.size()]);
    }
  while (out.x.size() % 12 != 0) out.x.push_back(out.x[0]), out.y.push_back(out.y[0]);
  return out;
}

// out[i] = build(x[i], y[i]) on both; `lanes` numbers at once.
void expect_values(DType from, DType to, const Numbers& in, const Target& target, int lanes,
                   const std::function<Node(Node, Node)>& build,
                   const std::function<Element(Element, Element)>& want, const std::string& name) {
  SCOPED_TRACE(fmt::format("{} from {} to {}, {} lanes, seed {}", name, from.str(), to.str(), lanes, kSeed));
  Scope scope;
  const auto n = static_cast<std::int64_t>(in.x.size());
  Node i = range(index_const(n), 0, RangeKind::Global);
  Node value = build(load(param(from, 1, n), i), load(param(from, 2, n), i));
  Node effect = end(store(param(to, 0, n), i, value), {&i, 1});
  const std::vector<Opt> options =
      lanes == 1 ? std::vector<Opt>{} : parse_opts(fmt::format("UPCAST(0, {})", lanes));
  const Program program = lower_kernel(sink({&effect, 1}), options, Compile(target), name);
  if (!target.wide_integers) {
    for (Node node : toposort(std::vector<Node>(program.code.begin(), program.code.end())))
      ASSERT_FALSE(node.dtype().is_int() && node.dtype().bits() == 64 && !node.is(Op::Special))
          << info(node.op()).name;
  }

  auto check = [&](const Bytes& got, const char* where) {
    for (std::size_t k = 0; k < in.x.size(); ++k) {
      const Element w = want(in.x[k], in.y[k]),
                    g = read_element(to, got.data() + k * static_cast<std::size_t>(to.bytes()));
      ASSERT_TRUE(same(to, g, w)) << where << ": " << text_of(from, in.x[k]) << " and "
                                  << text_of(from, in.y[k]) << " give " << text_of(to, g) << ", not "
                                  << text_of(to, w);
    }
  };
  const Bytes x = elements(from, in.x), y = elements(from, in.y),
              out(in.x.size() * static_cast<std::size_t>(to.bytes()));
  if (std::shared_ptr<const Compiler> compiler = llvm_compiler()) {
    // As the program lists them: a param that is not read is not there.
    std::vector<Bytes> buffers;
    for (const ProgramParam& p : program.params) buffers.push_back(p.slot == 0 ? out : p.slot == 1 ? x : y);
    run(compiler->compile(program), buffers);
    check(buffers[0], "CPU");
  }
  std::vector<reference::Array> arrays;
  for (std::int64_t slot = 0; slot < 3; ++slot) {
    const Bytes& bytes = slot == 0 ? out : slot == 1 ? x : y;
    DType dtype = slot == 0 ? to : from;
    for (const ProgramParam& p : program.params)
      if (p.slot == slot) dtype = p.dtype;
    arrays.emplace_back(dtype, static_cast<std::int64_t>(bytes.size()) / dtype.bytes());
    std::memcpy(arrays.back().data(), bytes.data(), bytes.size());
  }
  std::vector<reference::View> views;
  for (reference::Array& a : arrays) views.push_back(a.view());
  const reference::EvalReport report = reference::program_eval(program, views);
  ASSERT_TRUE(report.ok()) << (report.faults.empty() ? "incomplete" : report.faults[0]);
  Bytes got(out.size());
  std::memcpy(got.data(), arrays[0].data(), got.size());
  check(got, "REF");
}

TEST(Words, EveryOpOfTwoNumbersIsRight) {
  std::mt19937_64 random(kSeed);
  const Target target = words_target(true, false);
  for (DType dtype : {dtypes::Int64, dtypes::UInt64}) {
    const Numbers in = pairs_of(dtype, random);
    for (Op op : {Op::Add, Op::Sub, Op::Mul, Op::FloorDiv, Op::FloorMod, Op::TruncDiv, Op::TruncMod, Op::Max,
                  Op::Min, Op::And, Op::Or, Op::Xor, Op::Shl, Op::Shr, Op::Less, Op::Eq, Op::Ne})
      for (int lanes : {1, 4, 3}) {
        const DType to = info(op).result == ResultKind::Boolean ? dtypes::Bool : dtype;
        expect_values(
            dtype, to, in, target, lanes, [&](Node x, Node y) { return apply(op, x, y); },
            [&](Element x, Element y) { return evaluate(op, dtype, x, y); }, std::string(info(op).name));
      }
  }
}

TEST(Words, NegationComplementAndChoiceAreRight) {
  std::mt19937_64 random(kSeed + 1);
  const Target target = words_target(true, false);
  for (DType dtype : {dtypes::Int64, dtypes::UInt64}) {
    const Numbers in = pairs_of(dtype, random);
    for (Op op : {Op::Neg, Op::Not})
      expect_values(
          dtype, dtype, in, target, 1, [&](Node x, Node) { return apply(op, x); },
          [&](Element x, Element) { return evaluate(op, dtype, x); }, std::string(info(op).name));
    expect_values(
        dtype, dtype, in, target, 4, [&](Node x, Node y) { return where(less(x, y), x + y, y); },
        [&](Element x, Element y) {
          return evaluate(Op::Less, dtype, x, y).i != 0 ? evaluate(Op::Add, dtype, x, y) : y;
        },
        "Where");
  }
}

TEST(Words, EveryConversionIsRight) {
  std::mt19937_64 random(kSeed + 2);
  const Target target = words_target(true, false);
  const DType others[] = {dtypes::Bool,   dtypes::Int8,    dtypes::UInt8,  dtypes::Int16,
                          dtypes::UInt16, dtypes::Int32,   dtypes::UInt32, dtypes::Int64,
                          dtypes::UInt64, dtypes::Float32, dtypes::Float64};
  for (DType wide : {dtypes::Int64, dtypes::UInt64})
    for (DType other : others)
      for (auto [from, to] : {std::pair{wide, other}, std::pair{other, wide}}) {
        if (from == to) continue;
        Numbers in = pairs_of(from, random);
        for (int lanes : {1, 4})
          expect_values(
              from, to, in, target, lanes, [&, to = to](Node x, Node) { return cast(x, to); },
              [&, from = from, to = to](Element x, Element) { return convert(to, from, x); }, "Cast");
      }
}

// A sum over a row: the accumulator is a pair, too.
TEST(Words, SumsOfWideNumbersCarry) {
  Scope scope;
  constexpr std::int64_t kRows = 5, kColumns = 37;
  std::mt19937_64 random(kSeed + 3);
  std::vector<std::int64_t> x(kRows * kColumns), want(kRows, 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<std::int64_t>(random());
    std::int64_t& sum = want[i / kColumns];
    sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(x[i]));
  }
  Node row = range(index_const(kRows), 0, RangeKind::Global),
       column = range(index_const(kColumns), 1, RangeKind::Reduce);
  Node sum = reduce_ranges(
      Op::Add, load(param(dtypes::Int64, 1, kRows * kColumns), row * index_const(kColumns) + column),
      {&column, 1});
  Node effect = end(store(param(dtypes::Int64, 0, kRows), row, sum), {&row, 1});
  const Program program = lower_kernel(sink({&effect, 1}), {}, Compile(words_target(true, false)), "sums");
  std::vector<reference::Array> arrays{{dtypes::UInt32, 2 * kRows}, {dtypes::UInt32, 2 * kRows * kColumns}};
  std::memcpy(arrays[1].data(), x.data(), x.size() * 8);
  std::vector<reference::View> views{arrays[0].view(), arrays[1].view()};
  ASSERT_TRUE(reference::program_eval(program, views).ok());
  EXPECT_EQ(std::memcmp(arrays[0].data(), want.data(), want.size() * 8), 0) << "seed " << kSeed + 3;
}

TEST(Words, MemoryThatNeedsMoreThanAWordToCountIsRefused) {
  Scope scope;
  const std::int64_t n = std::int64_t{1} << 31;
  Node i = range(index_const(n), 0, RangeKind::Global);
  Node effect = end(store(param(dtypes::Int64, 0, n), i, int_const(dtypes::Int64, 1)), {&i, 1});
  EXPECT_THROW(lower_kernel(sink({&effect, 1}), {}, Compile(words_target(true, false)), "large"), UserError);
}

TEST(ConstantDivision, MultipliesAndIsRight) {
  std::mt19937_64 random(kSeed + 4);
  for (bool words : {false, true})
    for (DType dtype : {dtypes::Int8, dtypes::UInt8, dtypes::Int16, dtypes::UInt16, dtypes::Int32,
                        dtypes::UInt32, dtypes::Int64, dtypes::UInt64}) {
      if (words && dtype.bits() < 64) continue;
      const Target target = words_target(words, true);
      Numbers in{numbers_of(dtype, random), {}};
      while (in.x.size() % 12 != 0) in.x.push_back(in.x[0]);
      in.y = in.x;
      std::vector<std::int64_t> divisors{
          1, 3, 7, 10, 100, dtype.max_int(), dtype.max_int() - 1, -1, -2, -7, -100, dtype.min_int(), 64};
      for (int i = 0; i < 3; ++i)
        divisors.push_back(
            static_cast<std::int64_t>(random() >> (random() % static_cast<unsigned>(dtype.bits()))));
      for (std::int64_t d : divisors) {
        d = wrap(dtype, d);
        if (d == 0) continue;
        for (Op op : {Op::TruncDiv, Op::TruncMod, Op::FloorDiv, Op::FloorMod}) {
          SCOPED_TRACE(fmt::format("by {}", d));
          expect_values(
              dtype, dtype, in, target, 1, [&](Node x, Node) { return apply(op, x, int_const(dtype, d)); },
              [&](Element x, Element) { return evaluate(op, dtype, x, {d, 0}); }, std::string(info(op).name));
        }
      }
    }
}

// What is left divides by what is not known, or by 1 and -1.
TEST(ConstantDivision, LeavesNoDivisionByAConstant) {
  Scope scope;
  const std::int64_t n = 7 * 9 * 11;
  Node i = range(index_const(n), 0, RangeKind::Global);
  Node place = floor_mod(floor_div(i, index_const(11)), index_const(9)) * index_const(7) +
               floor_div(i, index_const(99));
  Node value = apply(Op::TruncDiv, load(param(dtypes::Int32, 1, n), place), int_const(dtypes::Int32, 10));
  Node effect = end(store(param(dtypes::Int32, 0, n), i, value), {&i, 1});
  for (bool multiplies : {false, true}) {
    const Program program =
        lower_kernel(sink({&effect, 1}), {}, Compile(words_target(false, multiplies)), "divides");
    int divisions = 0;
    for (Node node : toposort(std::vector<Node>(program.code.begin(), program.code.end())))
      divisions += node.is(Op::TruncDiv) || node.is(Op::TruncMod);
    EXPECT_EQ(divisions > 0, !multiplies);
  }
}

}  // namespace
}  // namespace lathe::test
