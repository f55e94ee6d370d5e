// Conversions against `convert` of ir/value.h: every code of every small float up, every code boundary down.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "decompose/support.h"
#include "ir/float_range.h"
#include "ir/value.h"

namespace lathe::testing {
namespace {

const DType kSmall[] = {dtypes::Float16, dtypes::BFloat16,    dtypes::Fp8e4m3,
                        dtypes::Fp8e5m2, dtypes::Fp8e4m3fnuz, dtypes::Fp8e5m2fnuz};

DType storage(DType dtype) {
  switch (dtype.bits()) {
    case 8: return dtypes::UInt8;
    case 16: return dtypes::UInt16;
    case 32: return dtypes::UInt32;
    default: return dtypes::UInt64;
  }
}
Element element(DType dtype, std::uint64_t raw) {
  Element bits{static_cast<std::int64_t>(raw), 0};
  if (dtype.is_float()) return reinterpret(dtype, storage(dtype), bits);
  return {wrap(dtype, bits.i), 0};
}
std::uint64_t raw_of(DType dtype, Element v) {
  if (dtype.is_float()) return static_cast<std::uint64_t>(reinterpret(storage(dtype), dtype, v).i);
  std::uint64_t mask = dtype.bits() == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << dtype.bits()) - 1;
  return static_cast<std::uint64_t>(v.i) & mask;
}
bool is_nan(DType dtype, std::uint64_t raw) { return dtype.is_float() && std::isnan(element(dtype, raw).f); }

// All inputs converted both ways must agree. 8-bit floats to the bit; other NaNs only in being NaN.
void check(DType from, DType to, const Block& inputs, const Target& target) {
  Block got = evaluate_decomposed({&from, 1}, target, {&inputs, 1}, [&](auto& x) { return cast(x[0], to); });
  int failures = 0;
  for (std::size_t i = 0; i < inputs.size() && failures < 5; ++i) {
    std::uint64_t want = raw_of(to, convert(to, from, element(from, inputs[i])));
    bool same = got[i] == want || (to.bits() > 8 && is_nan(to, want) && is_nan(to, got[i]));
    EXPECT_TRUE(same) << from.name() << " to " << to.name() << " of " << std::hex << inputs[i] << ": got "
                      << got[i] << ", want " << want;
    failures += !same;
  }
}

Block every_code(DType dtype) {
  Block all;
  for (std::uint64_t i = 0; i < std::uint64_t{1} << dtype.bits(); ++i) all.push_back(i);
  return all;
}

// Around each value of a small float and each midpoint between neighbours: the floats where rounding decides.
Block decisive_floats(DType dtype) {
  Block out;
  std::uint32_t codes = 1u << (dtype.bits() - 1);
  auto around = [&](double v) {
    auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v));
    for (std::uint32_t d : {0u, 1u, ~0u, 2u}) out.insert(out.end(), {bits + d, (bits + d) ^ 0x80000000u});
  };
  for (std::uint32_t c = 0; c + 1 < codes; ++c) {
    double a = element(dtype, c).f, b = element(dtype, c + 1).f;
    around(a);
    if (std::isfinite(a) && std::isfinite(b)) around((a + b) / 2);
  }
  for (double v : {464.0, 480.0, 61440.0, 65520.0, 65536.0, 248.0, 1e30, 1e-45, 1e-30, 3.4e38}) around(v);
  for (std::uint64_t special :
       {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u, 0x7f800001u, 0x7fffffffu, 0xffffffffu})
    out.push_back(special);
  return out;
}

TEST(Cast, ReadsEveryCodeOfEverySmallFloat) {
  for (DType from : kSmall)
    for (DType to : {dtypes::Float32, dtypes::Float64, dtypes::Int32, dtypes::UInt8, dtypes::Bool})
      check(from, to, every_code(from), bare_target(true));
}

TEST(Cast, RoundsToEverySmallFloatAsConvertDoes) {
  for (DType to : kSmall) {
    check(dtypes::Float32, to, decisive_floats(to), bare_target(true));
    std::mt19937 random(5);  // seed 5
    Block some;
    for (int i = 0; i < 300000; ++i) some.push_back(random());
    check(dtypes::Float32, to, some, bare_target(true));
  }
}

TEST(Cast, ConvertsBetweenSmallFloatsThroughFloat) {
  for (DType from : kSmall)
    for (DType to : kSmall)
      if (from != to) check(from, to, every_code(from), bare_target(false));
}

TEST(Cast, LeavesHalfToTargetsThatConvertIt) {
  check(dtypes::Float16, dtypes::Float32, every_code(dtypes::Float16), bare_target(true, {Scalar::Float16}));
  check(dtypes::Float32, dtypes::Float16, decisive_floats(dtypes::Float16),
        bare_target(true, {Scalar::Float16}));
  Scope scope;
  Node x = leaf(dtypes::Float16);
  EXPECT_EQ(decompose(cast(x, dtypes::Float32), bare_target(true, {Scalar::Float16})),
            cast(x, dtypes::Float32));
}

TEST(Cast, DoublesGoThroughFloatToSmallFloats) {
  std::mt19937_64 random(6);  // seed 6
  Block some;
  for (int i = 0; i < 100000; ++i) some.push_back(random());
  std::uniform_real_distribution<double> moderate(-500, 500);
  for (int i = 0; i < 100000; ++i) some.push_back(std::bit_cast<std::uint64_t>(moderate(random)));
  for (DType to : kSmall) check(dtypes::Float64, to, some, bare_target(true));
}

TEST(Cast, FloatsToIntegersSaturateAndNaNIsZero) {
  std::vector<double> values = {0.0,   -0.0, 0.5,  -0.5,  0.99,  -0.99, 1.5,   -1.5, 127.5, 128,
                                255.9, 256,  -129, 32768, 65536, 1e10,  -1e10, 1e20, -1e20, 1e300};
  for (int e : {7, 8, 15, 16, 31, 32, 53, 62, 63, 64})
    for (double d : {0.0, 1.0, -1.0})
      values.insert(values.end(), {std::ldexp(1.0, e) + d, -std::ldexp(1.0, e) + d});
  std::size_t plain = values.size();
  for (std::size_t i = 0; i < plain; ++i)
    for (double toward : {-1e308, 1e308}) values.push_back(std::nextafter(values[i], toward));
  double infinity = std::numeric_limits<double>::infinity();
  values.insert(values.end(), {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()});
  Block floats, doubles;
  for (double v : values) {
    doubles.push_back(std::bit_cast<std::uint64_t>(v));
    floats.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(v)));
    floats.push_back(std::bit_cast<std::uint32_t>(std::nextafterf(static_cast<float>(v), 0.0f)));
  }
  for (DType to : {dtypes::Int8, dtypes::UInt8, dtypes::Int16, dtypes::UInt16, dtypes::Int32, dtypes::UInt32,
                   dtypes::Int64, dtypes::UInt64, dtypes::Bool}) {
    check(dtypes::Float32, to, floats, bare_target(true));
    check(dtypes::Float64, to, doubles, bare_target(true));
  }
}

TEST(Cast, LimitedFloatsBecomeIntegersAsTheyAre) {
  Scope scope;
  Node x = leaf(dtypes::Float32);
  auto number = [](double v) { return float_const(dtypes::Float32, v); };
  auto limited = [&](double lo, double hi) { return max(min(x, number(hi)), number(lo)); };
  Node small = limited(-255, 70000), whole = small + number(0x1.8p23) - number(0x1.8p23);
  for (Node value : {small, whole})
    EXPECT_EQ(decompose(cast(value, dtypes::Int32), bare_target(true)),
              cast(where(equal(value, value), value, number(0)), dtypes::Int32));
  Node not_nan = max(min(where(apply(Op::Ne, x, x), number(0), x), number(9)), number(-9));
  EXPECT_EQ(decompose(cast(not_nan, dtypes::Int32), bare_target(true)), cast(not_nan, dtypes::Int32));
  EXPECT_TRUE(float_range(not_nan).fits(dtypes::Int32));
  // One more than the dtype has, and what its own condition does not limit.
  EXPECT_FALSE(float_range(limited(-1, 0x1p31)).fits(dtypes::Int32));
  EXPECT_FALSE(float_range(where(less(x, number(5)), x, number(0))).fits(dtypes::Int32));
  Node inside = where(logical_and(less(x, number(5)), less(number(-5), x)), x, number(0));
  EXPECT_TRUE(float_range(inside).fits(dtypes::Int32));
}

TEST(Cast, IntegersToFloatsRoundAsConvertDoes) {
  std::mt19937_64 random(8);  // seed 8
  for (DType from : {dtypes::Bool, dtypes::Int8, dtypes::UInt8, dtypes::Int16, dtypes::UInt16, dtypes::Int32,
                     dtypes::UInt32, dtypes::Int64, dtypes::UInt64}) {
    Block some;
    std::uint64_t mask = from.is_bool()      ? 1
                         : from.bits() == 64 ? ~std::uint64_t{0}
                                             : (std::uint64_t{1} << from.bits()) - 1;
    for (int i = 0; i < 20000; ++i) some.push_back(random() >> (random() % 64) & mask);
    for (DType to : {dtypes::Float64, dtypes::Float32, dtypes::Float16, dtypes::BFloat16, dtypes::Fp8e4m3})
      check(from, to, some, bare_target(true));
  }
}

// Ops on small floats compute in float and round once: what `evaluate` says, bit for bit.
TEST(Arithmetic, OnSmallFloatsIsDoneInFloatAndRounded) {
  std::mt19937 random(9);  // seed 9
  for (DType dtype : kSmall) {
    std::uint32_t mask = (1u << dtype.bits()) - 1;
    Block x, y, z;
    for (int i = 0; i < 20000; ++i) {
      x.push_back(random() & mask);
      y.push_back(random() & mask);
      z.push_back(random() & mask);
    }
    const DType three[] = {dtype, dtype, dtype};
    const Block inputs[] = {x, y, z};
    for (Op op : {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Max, Op::Min, Op::Less, Op::Eq, Op::Ne, Op::Fma,
                  Op::Neg, Op::Recip, Op::Sqrt, Op::Trunc, Op::Floor}) {
      Block got = evaluate_decomposed(three, bare_target(true), inputs, [&](auto& v) {
        int n = info(op).args;
        return n == 1 ? apply(op, v[0]) : n == 2 ? apply(op, v[0], v[1]) : apply(op, v[0], v[1], v[2]);
      });
      DType result = info(op).result == ResultKind::Boolean ? dtypes::Bool : dtype;
      for (std::size_t i = 0; i < x.size(); ++i) {
        Element want = evaluate(op, dtype, element(dtype, x[i]), element(dtype, y[i]), element(dtype, z[i]));
        std::uint64_t bits = raw_of(result, want);
        bool same = got[i] == bits || (is_nan(result, bits) && is_nan(result, got[i]));
        // Of two zeros either may be the greater: operands of commutative ops have no order.
        if (op == Op::Max || op == Op::Min) same |= want.f == 0 && element(dtype, got[i]).f == 0;
        ASSERT_TRUE(same) << info(op).name << " on " << dtype.name() << " of " << std::hex << x[i] << " "
                          << y[i] << " " << z[i] << ": got " << got[i] << ", want " << bits;
      }
    }
  }
}

}  // namespace
}  // namespace lathe::testing
