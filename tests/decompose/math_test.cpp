// The error bounds of docs/numerics.md, for targets with and without fused multiply-add.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "decompose/support.h"

namespace lathe::testing {
namespace {

struct Row {
  Op op;
  double (*exact)(double);
  long double (*exact_long)(long double);
  double float_bound, double_bound;  // ulp
};
// The bounds stated in docs/numerics.md.
const Row kRows[] = {
    {Op::Exp2, [](double x) { return std::exp2(x); }, [](long double x) { return std::exp2(x); }, 1.0, 1.0},
    {Op::Log2, [](double x) { return std::log2(x); }, [](long double x) { return std::log2(x); }, 1.5, 1.5},
    {Op::Sin, [](double x) { return std::sin(x); }, [](long double x) { return std::sin(x); }, 1.25, 1.25},
    {Op::Cos, [](double x) { return std::cos(x); }, [](long double x) { return std::cos(x); }, 1.25, 1.25},
};

std::string_view name_of(const Row& row) { return info(row.op).name; }

struct Worst {
  double error = 0;
  double input = 0;
};

// The largest error over float inputs first, first + step, ... given by their bits.
Worst worst_float(const Row& row, bool fma, std::uint64_t first, std::uint64_t step) {
  Scope scope;
  Node x = leaf(dtypes::Float32);
  BlockEvaluator evaluator(decompose(apply(row.op, x), bare_target(fma)), {&x, 1});
  Worst worst;
  Block input;
  auto flush = [&] {
    const Block& out = evaluator.run({&input, 1});
    for (std::size_t i = 0; i < input.size(); ++i) {
      float v = std::bit_cast<float>(static_cast<std::uint32_t>(input[i]));
      double error = float_ulps(std::bit_cast<float>(static_cast<std::uint32_t>(out[i])), row.exact(v));
      if (error > worst.error) worst = {error, v};
    }
    input.clear();
  };
  for (std::uint64_t bits = first; bits < std::uint64_t{1} << 32; bits += step) {
    input.push_back(bits);
    if (input.size() == 4096) flush();
  }
  if (!input.empty()) flush();
  return worst;
}

TEST(Math, KeepsItsBoundOnADenseSampleOfFloats) {
  for (const Row& row : kRows)
    for (bool fma : {true, false}) {
      Worst worst = worst_float(row, fma, 11, 4999);
      EXPECT_LE(worst.error, row.float_bound)
          << name_of(row) << " at " << worst.input << (fma ? " with fma" : "");
    }
}

// All 2^32 of them in 64 slices, about an hour of one core: bin/test_decompose
// --gtest_also_run_disabled_tests
// --gtest_filter='*EveryFloat*' (GTEST_TOTAL_SHARDS spreads it). The worst lines are what docs/numerics.md
// quotes.
class EveryFloat : public ::testing::TestWithParam<int> {};

TEST_P(EveryFloat, DISABLED_KeepsTheBound) {
  for (const Row& row : kRows)
    for (bool fma : {true, false}) {
      Worst worst = worst_float(row, fma, static_cast<std::uint64_t>(GetParam()), 64);
      printf("%s float32%s: %.4f ulp at %a\n", name_of(row).data(), fma ? " fma" : "", worst.error,
             worst.input);
      EXPECT_LE(worst.error, row.float_bound);
    }
}
INSTANTIATE_TEST_SUITE_P(Slices, EveryFloat, ::testing::Range(0, 64));

// Doubles of every exponent, near the edges of each function, and near multiples of pi/2.
Block sample_of_doubles(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> v = {
      0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1024.0, -1074.0, -1075.0, -1074.5, 1023.9999999999999, -1022.0};
  for (double edge : {5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 6381956970095103.0 * 0x1p797})
    v.insert(v.end(), {edge, -edge});
  double infinity = std::numeric_limits<double>::infinity();
  v.insert(v.end(), {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()});
  for (int i = 0; i < 100000; ++i) v.push_back(std::bit_cast<double>(random()));
  std::uniform_real_distribution<double> small(-1100, 1100), near_one(0.5, 2), unit(-1, 1);
  for (int i = 0; i < 50000; ++i) v.insert(v.end(), {small(random), near_one(random), unit(random)});
  for (int i = 0; i < 50000; ++i) {
    double multiple = static_cast<double>(random() >> (random() % 60 + 2)) * 0x1.921fb54442d18p+0;
    v.insert(v.end(), {multiple, std::nextafter(multiple, 0), std::nextafter(multiple, infinity)});
  }
  Block bits;
  for (double x : v) bits.push_back(std::bit_cast<std::uint64_t>(x));
  return bits;
}

TEST(Math, KeepsItsBoundOnSampledDoubles) {
  constexpr std::uint64_t seed = 7;
  constexpr std::size_t block = 4096;
  Block input = sample_of_doubles(seed);
  for (const Row& row : kRows)
    for (bool fma : {true, false}) {
      Scope scope;
      Node x = leaf(dtypes::Float64);
      BlockEvaluator evaluator(decompose(apply(row.op, x), bare_target(fma)), {&x, 1});
      Worst worst;
      for (std::size_t begin = 0; begin < input.size(); begin += block) {
        auto end = input.begin() + static_cast<std::ptrdiff_t>(std::min(begin + block, input.size()));
        Block part(input.begin() + static_cast<std::ptrdiff_t>(begin), end);
        const Block& out = evaluator.run({&part, 1});
        for (std::size_t i = 0; i < part.size(); ++i) {
          auto v = std::bit_cast<double>(part[i]);
          double error = double_ulps(std::bit_cast<double>(out[i]), row.exact_long(v));
          if (error > worst.error) worst = {error, v};
        }
      }
      printf("%s float64%s: %.3f ulp at %a\n", name_of(row).data(), fma ? " fma" : "", worst.error,
             worst.input);
      EXPECT_LE(worst.error, row.double_bound) << name_of(row) << " at " << worst.input << ", seed " << seed;
    }
}

TEST(Math, IsExactAtTheSpecialValues) {
  float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    Op op;
    float in, out;
  };
  const Case cases[] = {
      {Op::Exp2, 0, 1},
      {Op::Exp2, -0.0f, 1},
      {Op::Exp2, 10, 1024},
      {Op::Exp2, -149, 0x1p-149f},
      {Op::Exp2, -150, 0},
      {Op::Exp2, 127, 0x1p127f},
      {Op::Exp2, 128, inf},
      {Op::Exp2, inf, inf},
      {Op::Exp2, -inf, 0},
      {Op::Exp2, nan, nan},
      {Op::Log2, 1, 0},
      {Op::Log2, 8, 3},
      {Op::Log2, 0x1p-149f, -149},
      {Op::Log2, 0x1p-127f, -127},
      {Op::Log2, 0, -inf},
      {Op::Log2, -0.0f, -inf},
      {Op::Log2, -1, nan},
      {Op::Log2, -inf, nan},
      {Op::Log2, inf, inf},
      {Op::Log2, nan, nan},
      {Op::Sin, 0, 0},
      {Op::Sin, -0.0f, -0.0f},
      {Op::Sin, 0x1p-149f, 0x1p-149f},
      {Op::Sin, inf, nan},
      {Op::Sin, -inf, nan},
      {Op::Sin, nan, nan},
      {Op::Cos, 0, 1},
      {Op::Cos, -0.0f, 1},
      {Op::Cos, 0x1p-149f, 1},
      {Op::Cos, inf, nan},
      {Op::Cos, nan, nan},
  };
  for (bool fma : {true, false})
    for (const Case& c : cases)
      for (DType dtype : {dtypes::Float32, dtypes::Float64}) {
        if (dtype == dtypes::Float64 && c.op == Op::Exp2 && std::fabs(c.in) > 127 && std::isfinite(c.in))
          continue;
        bool narrow = dtype == dtypes::Float32;
        Block in = {narrow ? std::bit_cast<std::uint32_t>(c.in)
                           : std::bit_cast<std::uint64_t>(static_cast<double>(c.in))};
        std::uint64_t raw = evaluate_decomposed({&dtype, 1}, bare_target(fma), {&in, 1},
                                                [&](auto& x) { return apply(c.op, x[0]); })[0];
        double got = narrow ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(raw)))
                            : std::bit_cast<double>(raw);
        if (std::isnan(c.out)) {
          EXPECT_TRUE(std::isnan(got)) << info(c.op).name << " of " << c.in << " is " << got;
        } else {
          EXPECT_EQ(got, static_cast<double>(c.out)) << info(c.op).name << " of " << c.in;
          EXPECT_EQ(std::signbit(got), std::signbit(c.out)) << info(c.op).name << " of " << c.in;
        }
      }
}

// Every half and every bfloat16: the float result rounded, so at most one code beside the exact value
// rounded.
TEST(Math, IsWithinOneCodeOnEveryHalfAndBfloat16) {
  Block all;
  for (std::uint64_t i = 0; i < 65536; ++i) all.push_back(i);
  for (DType dtype : {dtypes::Float16, dtypes::BFloat16})
    for (const Row& row : kRows) {
      Block out = evaluate_decomposed({&dtype, 1}, bare_target(true), {&all, 1},
                                      [&](auto& x) { return apply(row.op, x[0]); });
      int differ = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        bool half = dtype.scalar == Scalar::Float16;
        auto value = [&](std::uint64_t code) {
          auto bits = static_cast<std::uint16_t>(code);
          return half ? half_to_float(bits) : bfloat16_to_float(bits);
        };
        double exact = row.exact(value(all[i]));
        double got = value(out[i]);
        double error = half ? ulps(got, exact, 10, -14, 16) : ulps(got, exact, 7, -126, 128);
        EXPECT_LE(error, 0.51) << dtype.name() << " " << info(row.op).name << " of " << value(all[i]);
        differ += got != round_to(dtype, exact) && !std::isnan(got);
      }
      EXPECT_LE(differ, 16) << dtype.name() << " " << info(row.op).name;
    }
}

// Lanes change nothing: each constant is repeated beside a vector.
TEST(Math, KeepsLanes) {
  Scope scope;
  Node x = load(param(dtypes::Float32, 0, 64), index_const(0), Node(), 8);
  for (const Row& row : kRows) {
    Node out = decompose(apply(row.op, x), bare_target(true));
    for (Node n : toposort(out)) {
      if (!is_scalar_op(n.op())) continue;
      for (Node a : n.args()) EXPECT_EQ(a.dtype().lanes, 8) << info(n.op()).name << " in " << name_of(row);
    }
    EXPECT_EQ(out.dtype(), dtypes::Float32.vec(8));
  }
}

// A long chain grows by a constant number of nodes a link, and is walked without recursion.
TEST(Math, GrowsLinearlyOnAChain) {
  Scope scope;
  auto size_of = [](int links) {
    Node x = leaf(dtypes::Float32);
    for (int i = 0; i < links; ++i) x = apply(Op::Sin, x);
    return toposort(decompose(x, bare_target(true))).size();
  };
  std::size_t one = size_of(1), thousand = size_of(1000);
  EXPECT_LE(thousand, 1000 * one);
}

}  // namespace
}  // namespace lathe::testing
