// Every kind of number that the units of a GPU multiply: by the unit, by its loops without it, and from its
// panels without it, with small integers whose sums are exact.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "codegen/program_faults.h"
#include "ir/dot.h"
#include "target/matrix_units.h"

namespace lathe::test {
namespace {

struct Kind {
  const char* dot;
  DType x, y;
  std::int64_t row() const { return 128 / x.bytes(); }  // numbers of a row of a panel
  // Both factors in swizzled panels at a loop: they are numbered after the loads of their words' numbers.
  std::string panels(int loop) const {
    const int first = 2 * (32 / x.bits());
    return fmt::format("TC(1, 4, 1, 1) STAGE({0}, {1}, 2) STAGE({0}, {2}, 2) ", loop, first, first + 1);
  }
};
const Kind kKinds[] = {
    {"bf16", dtypes::BFloat16, dtypes::BFloat16},    {"f16", dtypes::Float16, dtypes::Float16},
    {"tf32", dtypes::Float32, dtypes::Float32},      {"e4m3", dtypes::Fp8e4m3, dtypes::Fp8e4m3},
    {"e5m2", dtypes::Fp8e5m2, dtypes::Fp8e5m2},      {"e4m3_e5m2", dtypes::Fp8e4m3, dtypes::Fp8e5m2},
    {"e5m2_e4m3", dtypes::Fp8e5m2, dtypes::Fp8e4m3}, {"i8i8", dtypes::Int8, dtypes::Int8},
    {"i8u8", dtypes::Int8, dtypes::UInt8},           {"u8i8", dtypes::UInt8, dtypes::Int8},
    {"u8u8", dtypes::UInt8, dtypes::UInt8},
};

Node product(const Kind& kind, std::int64_t m, std::int64_t n, std::int64_t k, bool steps_x = true,
             bool steps_y = true) {
  return unit_matmul(m, n, k, kind.x, kind.y, steps_x, steps_y);
}
std::string fault_in(Node kernel, const std::string& opts, const char* target = "sm_90a") {
  return compare_with_reference(kernel, parse_opts(opts), named_target(target), 7);
}
bool has_row(const Target& target, std::string_view dot) {
  return unit_for_dot(target.units, dot, true) != nullptr;
}
bool uses_unit(std::span<const Opt> opts) {
  return std::any_of(opts.begin(), opts.end(), [](const Opt& opt) { return opt.op == OptOp::TC; });
}

// Rows of 128 bytes, the last one not whole, by copies of threads and by bulk copies. Row 4 is the narrowest
// of those that read panels.
TEST(UnitRows, EachKindIsReadFromPanels) {
  Scope scope;
  for (const Kind& kind : kKinds) {
    Node kernel = product(kind, 64, 72, kind.row() + 32);
    const std::string bulk = kind.panels(4) + "PIPELINE(4, 2, 1)";
    const Program program = lower_kernel(kernel, parse_opts(bulk), named_target("sm_90a"), "product");
    EXPECT_EQ(count(program, Op::PanelDot), 1) << kind.dot;
    EXPECT_GT(count(program, Op::BulkCopy), 0) << kind.dot;
    EXPECT_EQ(fault_in(kernel, bulk), "") << kind.dot;
    if (kind.x != kind.y) continue;
    EXPECT_EQ(fault_in(kernel, kind.panels(4) + "PIPELINE(4, 2)"), "") << kind.dot;
  }
}

TEST(UnitRows, EachKindHasItsLoopsAndItsPanelsWithoutTheInstruction) {
  Scope scope;
  for (const Kind& kind : kKinds) {
    Node kernel = product(kind, 24, 16, 40, true, false);
    for (const char* target : {"sm_80", "sm_89", "sm_90a"}) {
      if (!has_row(named_target(target), kind.dot)) continue;
      EXPECT_EQ(fault_in(kernel, "TC(1, 0, 1, 2)", target), "") << kind.dot;
      EXPECT_EQ(fault_in(kernel, "TC(1, 0, 1, 3)", target), "") << kind.dot;
      EXPECT_EQ(fault_in(kernel, "TC(1, 0, 1, 3) STAGE(0, 0, 0) STAGE(-1, 1, 1)", target), "") << kind.dot;
    }
  }
}

// The heuristic takes the rows that a chip has, and what it chooses is right.
TEST(UnitRows, AreOfferedWhereTheChipHasThem) {
  Scope scope;
  for (const char* name : {"sm_80", "sm_89", "sm_90a"}) {
    const Target target = named_target(name);
    for (const Kind& kind : kKinds) {
      const bool fp8 = kind.x.is_float() && kind.x.bits() == 8;
      EXPECT_EQ(has_row(target, kind.dot), !fp8 || target.name != "sm_80") << name << " " << kind.dot;
      Node kernel = product(kind, 64, 64, 64, true, target.bulk_copies);
      const std::vector<Opt> opts = choose_options(kernel, target);
      EXPECT_EQ(uses_unit(opts), has_row(target, kind.dot)) << name << " " << kind.dot;
      EXPECT_EQ(compare_with_reference(kernel, opts, target, 7), "") << name << " " << kind.dot;
    }
  }
}

// Units that read panels take rows of steps only, unless numbers have 16 bits.
TEST(UnitRows, OfOutputsAreForNumbersOf16Bits) {
  Scope scope;
  for (const Kind& kind : kKinds) {
    Node kernel = product(kind, 64, 64, 2 * kind.row(), true, false);
    const std::vector<Opt> opts = parse_opts(kind.panels(3));
    if (kind.x.bits() == 16)
      EXPECT_EQ(compare_with_reference(kernel, opts, named_target("sm_90a"), 7), "");
    else
      EXPECT_THROW(apply_options(kernel, opts, named_target("sm_90a")), KernelOptError) << kind.dot;
  }
}

// Sums of fp8 keep few bits inside of the unit: those of one row of a panel are added up outside.
TEST(UnitRows, SumsOfFp8AreAddedUpOutsideOfTheUnit) {
  Scope scope;
  const DotKind& kind = *find_dot_kind("e4m3");
  const std::uint32_t one[] = {0x38};  // 1.0 and three zeros
  EXPECT_EQ(dot_row_value(kind, one, one, {0, 4096.0}).f, 4097.0);
  EXPECT_EQ(dot_row_value(kind, one, one, {0, 32768.0}).f, 32768.0);
  for (const Kind& k : kKinds) {
    const Program program =
        lower_kernel(product(k, 64, 64, 4 * k.row()), parse_opts(k.panels(3) + "PIPELINE(3, 2, 1)"),
                     named_target("sm_90a"), "product");
    for (const NodeRef& n : program.code) {
      if (!n->is(Op::PanelDot)) continue;
      EXPECT_EQ(n->arg(4).is(Op::Splat), k.x.is_float() && k.x.bits() == 8) << k.dot;
    }
  }
}

}  // namespace
}  // namespace lathe::test
