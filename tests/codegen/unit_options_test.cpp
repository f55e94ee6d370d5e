// TC: products on matrix units, in every row and mode, and what they refuse.
#include "lathe/options.h"

#include <gtest/gtest.h>

#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "codegen/options/matrix_unit.h"
#include "codegen/options/option_state.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe::test {
namespace {

struct SmallProduct {
  DType a, b, sum;
};
const SmallProduct kSmallProducts[] = {
    {dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32},
    {dtypes::Int8, dtypes::Int8, dtypes::Int32},
    {dtypes::UInt8, dtypes::Int8, dtypes::Int32},
    {dtypes::Int8, dtypes::UInt8, dtypes::Int32},
    {dtypes::UInt8, dtypes::UInt8, dtypes::Int32},
    {dtypes::Int16, dtypes::Int16, dtypes::Int32},
    {dtypes::Float16, dtypes::Float16, dtypes::Float32},
    {dtypes::Fp8e4m3, dtypes::Fp8e4m3, dtypes::Float32},
    {dtypes::Fp8e5m2, dtypes::Fp8e5m2, dtypes::Float32},
    {dtypes::Fp8e4m3, dtypes::Fp8e5m2, dtypes::Float32},
    {dtypes::Fp8e5m2, dtypes::Fp8e4m3, dtypes::Float32},
    {dtypes::Float32, dtypes::Float32, dtypes::Float32},
};
// The row of a target that an option takes, or null where there are not so many.
const MatrixUnit* unit_taken(Node kernel, const Target& target, std::int64_t row, std::int64_t use) {
  try {
    return use_matrix_unit(kernel, Opt{OptOp::TC, 1, {row, 1, use}}, target).value().unit;
  } catch (const KernelOptError&) {
    return nullptr;
  }
}

TEST(Options, EveryRowOfAMatrixUnitEqualsTheReferenceInAllItsModes) {
  Scope scope;
  std::set<std::string_view> seen;
  for (const char* name : {"ref", "x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8"})
    for (std::size_t i = 0; i <= std::size(kSmallProducts); ++i) {
      const Target target = named_target(name);
      const SmallProduct& p = kSmallProducts[i % std::size(kSmallProducts)];
      Node kernel = i == std::size(kSmallProducts) ? seven_bit_matmul(34, 33, 70)
                    : p.a == dtypes::Float32       ? unit_matmul(34, 33, 70, p.a, p.b, true, false)  // tf32
                                                   : small_matmul(34, 33, 70, p.a, p.b, p.sum);
      for (std::int64_t row = 0; const MatrixUnit* unit = unit_taken(kernel, target, row, 1); ++row)
        for (int use = 1; use <= 3; ++use) {
          const std::vector<Opt> unit_alone = parse_opts(fmt::format("TC(1, {}, 1, {})", row, use));
          std::vector<Node> values =
              stageable_values(use_matrix_unit(kernel, unit_alone[0], target).value().kernel);
          // The two factors are the last values that have a name.
          const std::size_t x = values.size() - 2, y = values.size() - 1;
          const std::string tc = to_string(unit_alone);
          const bool joined = unit->m > 1 && use == 1, warp = joined && unit->threads > 1;
          const std::vector<std::string> plain{
              "", fmt::format(" STAGE(0, {}, 0) STAGE(0, {}, 0)", x, y),
              fmt::format(" UPCAST(0, 2) UPCAST(1, 2) STAGE(0, {}, 0) "
                          "STAGE(0, {}, 0)",
                          x, y),
              fmt::format(" TILE(2, 2, 0) STAGE(0, {}, 0) STAGE(0, {}, 0)", x, y)};
          const std::vector<std::string> shared{
              "", fmt::format(" STAGE(1, {}, 0) STAGE(1, {}, 0)", x, y),
              fmt::format(" UPCAST(0, 2) UPCAST(1, 2) STAGE(1, {}, 1) STAGE(1, {}, 1)", x, y),
              fmt::format(" LOCAL(0, 2) LOCAL(1, 2) TILE(6, 2) STAGE(6, {}, 1) STAGE(6, {}, 0)", x, y)};
          const bool computed = i == std::size(kSmallProducts);  // a factor that is masked after its load
          for (const std::string& more : warp ? shared : plain) {
            if (warp && computed) continue;
            if (joined && more.empty()) {
              EXPECT_EQ(
                  refusal(kernel, tc.c_str(), name),
                  warp ? "lathe: TC: a unit of fragments that a warp shares needs both factors as they were "
                         "loaded, staged"
                       : "lathe: TC: a unit of fragments needs both factors staged in the consumer's order");
              continue;
            }
            try {
              EXPECT_EQ(compare_with_reference(kernel, parse_opts(tc + more), target, 3), "") << unit->name;
            } catch (const Error& e) {
              ADD_FAILURE() << unit->name << " " << tc << more << ": " << e.what();
            }
            seen.insert(unit->name);
          }
        }
    }
  // Those that read panels themselves are in group_panels_test.cpp.
  const auto rows = std::count_if(matrix_units().begin(), matrix_units().end(),
                                  [](const MatrixUnit& unit) { return unit.reads != UnitReads::Panels; });
  EXPECT_EQ(static_cast<std::ptrdiff_t>(seen.size()), rows);
}

// A negative byte in 16 bits without a sign is a large number: its product is not that of the bytes.
TEST(Options, AMatrixUnitTakesNoFactorThatLostItsSign) {
  Scope scope;
  const Target target = named_target("x86-64-v4+avx512bf16+avx512vnni");
  EXPECT_EQ(
      use_matrix_unit(cast_twice_matmul(4, 16, 8, dtypes::Int16), parse_opts("TC(1, 0, 0, 1)")[0], target)
          .value()
          .unit->name,
      "vpdpbusd");
  EXPECT_EQ(
      refusal(cast_twice_matmul(4, 16, 8, dtypes::UInt16), "TC(1, 0, 0, 1)", target.name.c_str()),
      "lathe: TC(1, 0, 0, 1): no matrix unit of target x86-64-v4+avx512bf16+avx512vnni multiplies u16 by i8");
}

// The last word of 7 steps has a step that is none: neither the table nor the list may be read there.
TEST(Options, AMatrixUnitReadsNoIndexBeyondItsList) {
  Scope scope;
  for (const char* opts : {"TC(1, 0, 1, 1)", "TC(1, 0, 1, 2)", "TC(1, 0, 1, 1) UPCAST(0, 3)"})
    EXPECT_EQ(compare_with_reference(gather_matmul(3, 16, 7, 5), parse_opts(opts),
                                     named_target("x86-64-v4+avx512bf16+avx512vnni"), 1),
              "")
        << opts;
}

// The rows of fragments come first and refuse a kernel without rows; those of vectors are behind them.
TEST(Options, AProductWithAVectorFindsTheVectorUnitBehindTheFragments) {
  Scope scope;
  const Target target = named_target("x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8");
  Node kernel = bf16_matrix_by_vector(64, 32);
  const Node lanes = all_ranges(kernel)[0];
  EXPECT_FALSE(matrix_unit_option(kernel, lanes, target, true));
  std::optional<Opt> opt = matrix_unit_option(kernel, lanes, target, false);
  ASSERT_TRUE(opt);
  EXPECT_EQ(use_matrix_unit(kernel, *opt, target).value().unit->name, "vdpbf16ps");
}

// Of these sums some read the border alone, in all steps: their loops are gone, and nothing may ask for them.
TEST(Options, SumsOverTheBorderAloneAreZeros) {
  Scope scope;
  for (const char* opts : {"UPCAST(3, 16)", "UNROLL(1, 16) STAGE(2, 0, 0)", "UPCAST(3, 0) UNROLL(2, 0)"})
    EXPECT_EQ(compare_with_reference(input_gradient(2, 16, 8, 6, 3), parse_opts(opts),
                                     named_target("x86-64-v3"), 1),
              "")
        << opts;
}

}  // namespace
}  // namespace lathe::test
