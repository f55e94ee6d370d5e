// The promotion lattice (R61), every pair spelled out, and the rules for literals and accumulators.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "lathe/lathe.h"

namespace lathe {
namespace {

// clang-format off
// Row and column in this order; a cell is what the two meet in.
constexpr const char* kNames = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 fp8e4m3 fp8e5m2 fp8e4m3fnuz fp8e5m2fnuz float16 bfloat16 float32 float64";
constexpr const char* kTable[] = {
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 fp8e4m3 fp8e5m2 fp8e4m3fnuz fp8e5m2fnuz float16 bfloat16 float32 float64",
    "int8 int8 int16 int16 int32 int32 int64 int64 float32 fp8e4m3 fp8e5m2 fp8e4m3fnuz fp8e5m2fnuz float16 bfloat16 float32 float64",
    "uint8 int16 uint8 int16 uint16 int32 uint32 int64 uint64 fp8e4m3 fp8e5m2 fp8e4m3fnuz fp8e5m2fnuz float16 bfloat16 float32 float64",
    "int16 int16 int16 int16 int32 int32 int64 int64 float32 fp8e4m3 fp8e5m2 fp8e4m3fnuz fp8e5m2fnuz float16 bfloat16 float32 float64",
    "uint16 int32 uint16 int32 uint16 int32 uint32 int64 uint64 fp8e4m3 fp8e5m2 fp8e4m3fnuz fp8e5m2fnuz float16 bfloat16 float32 float64",
    "int32 int32 int32 int32 int32 int32 int64 int64 float32 fp8e4m3 fp8e5m2 fp8e4m3fnuz fp8e5m2fnuz float16 bfloat16 float32 float64",
    "uint32 int64 uint32 int64 uint32 int64 uint32 int64 uint64 fp8e4m3 fp8e5m2 fp8e4m3fnuz fp8e5m2fnuz float16 bfloat16 float32 float64",
    "int64 int64 int64 int64 int64 int64 int64 int64 float32 fp8e4m3 fp8e5m2 fp8e4m3fnuz fp8e5m2fnuz float16 bfloat16 float32 float64",
    "uint64 float32 uint64 float32 uint64 float32 uint64 float32 uint64 fp8e4m3 fp8e5m2 fp8e4m3fnuz fp8e5m2fnuz float16 bfloat16 float32 float64",
    "fp8e4m3 fp8e4m3 fp8e4m3 fp8e4m3 fp8e4m3 fp8e4m3 fp8e4m3 fp8e4m3 fp8e4m3 fp8e4m3 float16 float16 float16 float16 bfloat16 float32 float64",
    "fp8e5m2 fp8e5m2 fp8e5m2 fp8e5m2 fp8e5m2 fp8e5m2 fp8e5m2 fp8e5m2 fp8e5m2 float16 fp8e5m2 float16 float16 float16 bfloat16 float32 float64",
    "fp8e4m3fnuz fp8e4m3fnuz fp8e4m3fnuz fp8e4m3fnuz fp8e4m3fnuz fp8e4m3fnuz fp8e4m3fnuz fp8e4m3fnuz fp8e4m3fnuz float16 float16 fp8e4m3fnuz float16 float16 bfloat16 float32 float64",
    "fp8e5m2fnuz fp8e5m2fnuz fp8e5m2fnuz fp8e5m2fnuz fp8e5m2fnuz fp8e5m2fnuz fp8e5m2fnuz fp8e5m2fnuz fp8e5m2fnuz float16 float16 float16 fp8e5m2fnuz float16 bfloat16 float32 float64",
    "float16 float16 float16 float16 float16 float16 float16 float16 float16 float16 float16 float16 float16 float16 float32 float32 float64",
    "bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 float32 bfloat16 float32 float64",
    "float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float64",
    "float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64",
};
// clang-format on

std::vector<DataType> words(const char* text) {
  std::istringstream in(text);
  std::vector<DataType> out;
  for (std::string word; in >> word;) out.push_back(dtypes::parse(word));
  return out;
}

TEST(Promotion, EveryPairMeetsWhereTheTableSays) {
  std::vector<DataType> names = words(kNames);
  ASSERT_EQ(names.size(), dtypes::all().size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<DataType> row = words(kTable[i]);
    for (std::size_t j = 0; j < names.size(); ++j) {
      EXPECT_EQ(least_upper_dtype(names[i], names[j]).name(), row[j].name())
          << names[i].name() << " and " << names[j].name();
      Tensor x = Tensor::zeros({2}, {.dtype = names[i]}), y = Tensor::ones({2}, {.dtype = names[j]});
      EXPECT_EQ((x * y).dtype().name(), row[j].name());
    }
  }
}

TEST(Promotion, ANumberAsATensorIsAsWeakAsALiteral) {
  for (DataType d : dtypes::all()) {
    const Tensor x = Tensor::ones({2}, {.dtype = d}), scalar = Tensor::ones({}, {.dtype = d});
    for (const Tensor& t : {x, scalar}) {
      EXPECT_EQ((t * Tensor(2)).dtype(), (t * 2).dtype()) << d.name();
      EXPECT_EQ((Tensor(2) * t).dtype(), (2 * t).dtype()) << d.name();
      EXPECT_EQ((t * Tensor(2.0)).dtype(), (t * 2.0).dtype()) << d.name();
      EXPECT_EQ((Tensor(2.0) - t.cast(dtypes::float16)).dtype(), dtypes::float16) << d.name();
      EXPECT_EQ((t > 0).where(Tensor(2.0), t).dtype(), (t > 0).where(2.0, t).dtype()) << d.name();
      EXPECT_EQ(t.maximum(Tensor(true)).dtype(), d) << d.name();
    }
  }
}

TEST(Promotion, WhatIsMadeOfWeakTensorsAloneIsWeak) {
  const Tensor half = Tensor::ones({2}, {.dtype = dtypes::float16});
  const Tensor weak[] = {
      Tensor(2.0) + 1,          1 - Tensor(2.0),       Tensor(2) * Tensor(0.5),
      Tensor(2.0).exp(),        Tensor(2).sqrt(),      -Tensor(2.0),
      Tensor(2.0).clone(),      Tensor(2.0).detach(),  Tensor(2.0).realize(),
      Tensor(2.0).pow(3),       Tensor(2.0).abs(),     (Tensor(2.0) > 1).where(Tensor(1.0), 2),
      Tensor(2.0).contiguous(), Tensor(2.0).maximum(3)};
  for (std::size_t i = 0; i < std::size(weak); ++i) {
    EXPECT_EQ((half * weak[i]).dtype(), dtypes::float16) << i;
    EXPECT_EQ(weak[i].dtype(), dtypes::float32) << i;
  }
  const Tensor strong[] = {Tensor(2.0, {.dtype = dtypes::float32}),
                           Tensor(2.0).cast(dtypes::float32),
                           Tensor({2.0}).sum(),
                           Tensor(2.0).reshape({1}),
                           Tensor::full({}, 2.0),
                           Tensor(2.0) * Tensor({2.0}).sum()};
  for (std::size_t i = 0; i < std::size(strong); ++i)
    EXPECT_EQ((half * strong[i]).dtype(), dtypes::float32) << i;
}

TEST(Promotion, AWeakParameterGetsAGradientOfItsOwnDtype) {
  Tensor scale = Tensor(3.0).requires_grad_();
  const Tensor half({1.0, 2.0}, {.dtype = dtypes::float16});
  const Tensor y = half * scale;
  EXPECT_EQ(y.dtype(), dtypes::float16);
  y.sum().backward();
  EXPECT_EQ(scale.grad()->item(), 3);
  EXPECT_EQ(scale.grad()->dtype(), dtypes::float32);
}

TEST(Promotion, AnIntegerLiteralKeepsTheTensorsDtypeExceptBool) {
  for (DataType d : dtypes::all()) {
    Tensor x = Tensor::ones({2}, {.dtype = d});
    EXPECT_EQ((x + 1).dtype(), d.is_bool() ? dtypes::default_int() : d) << d.name();
    EXPECT_EQ((2 * x).dtype(), d.is_bool() ? dtypes::default_int() : d) << d.name();
  }
}

TEST(Promotion, AFloatLiteralLiftsIntegersOnly) {
  for (DataType d : dtypes::all())
    EXPECT_EQ((Tensor::ones({2}, {.dtype = d}) + 0.5).dtype(), d.is_float() ? d : dtypes::default_float())
        << d.name();
}

TEST(Promotion, ABoolLiteralChangesNothing) {
  for (DataType d : dtypes::all()) EXPECT_EQ((Tensor::ones({2}, {.dtype = d}) * true).dtype(), d) << d.name();
}

TEST(Promotion, DivisionOfIntegersGivesTheDefaultFloat) {
  EXPECT_EQ((Tensor({1, 2}) / Tensor({3, 4})).dtype(), dtypes::float32);
  EXPECT_EQ(Tensor({1, 2}).sin().dtype(), dtypes::float32);
  EXPECT_EQ(Tensor::ones({2}, {.dtype = dtypes::float16}).sin().dtype(), dtypes::float16);
  EXPECT_EQ(Tensor({4, 2}).floor_divide(Tensor({3, 4})).dtype(), dtypes::int32);
}

TEST(Promotion, SumsOfSmallIntegersAreWideAndOfSmallFloatsComeBack) {
  struct Row {
    DataType from, sum;
  };
  for (auto [from, sum] : {Row{dtypes::bool_, dtypes::int32}, Row{dtypes::int8, dtypes::int32},
                           Row{dtypes::uint8, dtypes::uint32}, Row{dtypes::int16, dtypes::int32},
                           Row{dtypes::int64, dtypes::int64}, Row{dtypes::uint64, dtypes::uint64},
                           Row{dtypes::float16, dtypes::float16}, Row{dtypes::bfloat16, dtypes::bfloat16},
                           Row{dtypes::fp8e4m3, dtypes::fp8e4m3}, Row{dtypes::float64, dtypes::float64}})
    EXPECT_EQ(Tensor::ones({3}, {.dtype = from}).sum().dtype().name(), sum.name()) << from.name();
}

TEST(Promotion, ASumOfManyHalvesAccumulatesInFloat) {
  EXPECT_EQ(Tensor::ones({4096}, {.dtype = dtypes::float16}).contiguous().sum().item(), 4096);
  EXPECT_EQ(Tensor::full({300}, true, {.dtype = dtypes::bool_}).sum().item(), 300);
}

TEST(Dtypes, FactsAndGroups) {
  EXPECT_EQ(dtypes::float32.name(), "float32");
  EXPECT_EQ(dtypes::float16.itemsize(), 2);
  EXPECT_EQ(dtypes::int32.fmt(), 'i');
  EXPECT_EQ(dtypes::bool_.bitsize(), 1);
  EXPECT_TRUE(dtypes::int8 < dtypes::float16);
  EXPECT_EQ(dtypes::ints().size(), 8u);
  EXPECT_EQ(dtypes::floats().size(), 8u);
  EXPECT_EQ(dtypes::fp8s().size(), 4u);
  for (DataType d : dtypes::floats()) EXPECT_TRUE(d.is_float());
  for (DataType d : dtypes::ints()) EXPECT_TRUE(d.is_int());
  EXPECT_EQ(dtypes::finfo(dtypes::float16).max, 65504);
  EXPECT_EQ(dtypes::min(dtypes::int8).to_int(), -128);
  EXPECT_EQ(dtypes::parse("half"), dtypes::float16);
  EXPECT_EQ(dtypes::parse("long"), dtypes::int64);
}

// What is computed in floats is computed in them from the start: negatives and squares of narrow integers
// wrap.
TEST(Promotion, FunctionsOfIntegersAreThoseOfFloats) {
  using Function = Tensor (*)(const Tensor&);
  const std::pair<const char*, Function> functions[] = {
      {"softmin", [](const Tensor& x) { return x.softmin(); }},
      {"normalize 0", [](const Tensor& x) { return x.normalize(0); }},
      {"normalize 1", [](const Tensor& x) { return x.normalize(1); }},
      {"normalize 2", [](const Tensor& x) { return x.normalize(); }},
      {"normalize 3", [](const Tensor& x) { return x.normalize(3); }},
      {"normalize inf", [](const Tensor& x) { return x.normalize(INFINITY); }},
      {"binary_crossentropy_logits",
       [](const Tensor& x) { return x.binary_crossentropy_logits(Tensor::ones({2, 3}) * 0.25); }},
  };
  const std::pair<DataType, std::vector<double>> inputs[] = {
      {dtypes::uint8, {0, 1, 3, 200, 7, 128}},
      {dtypes::int8, {0, 1, -3, -128, 7, 127}},
      {dtypes::int16, {0, 1, -3, -32768, 7, 300}},
  };
  for (const auto& [dtype, numbers] : inputs)
    for (const auto& [name, function] : functions) {
      const Tensor x = Tensor(numbers, Shape{2, 3}).cast(dtype);
      const Tensor got = function(x), expected = function(x.cast(dtypes::float32));
      EXPECT_EQ(got.dtype(), dtypes::float32) << name;
      const std::vector<double> a = got.tolist(), b = expected.tolist();
      for (std::size_t i = 0; i < b.size(); ++i)
        EXPECT_NEAR(a[i], b[i], 1e-5 * (1 + std::fabs(b[i]))) << name << " of " << dtype.name() << ", " << i;
    }
}

}  // namespace
}  // namespace lathe
