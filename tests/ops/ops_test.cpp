// Every op case over dtypes, shapes, views and special values, on the device named by OPS_DEVICE (CPU if not
// set), against REF on the tensor graph. OPS_SAMPLE=n takes a seeded n-th of the variants. All variants of a
// row are realized together, so that devices with slow compilers get them in one unit.
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <exception>
#include <set>

#include "runtime/registry.h"
#include "suite.h"
#include "support/known_failures.h"

namespace lathe::test {
namespace {

class Ops : public testing::TestWithParam<std::size_t> {};

// How the variants fail, or nothing.
std::string run(const std::vector<Variant>& variants) {
  std::uint64_t n = sample_size(1);
  std::vector<Wanted> all;
  try {
    for (const Variant& v : variants)
      if (chosen(v, n)) add_wanted(v, device_under_test(), all);
    return first_difference(all);
  } catch (const std::exception& e) {
    return std::string("threw ") + e.what();
  }
}

void expect_as_known(const std::string& name, const std::vector<Variant>& variants) {
  std::string failure = run(variants);
  EXPECT_EQ(verdict(known_failures(), name, parse_device_name(device_under_test()).backend, failure), "")
      << "  repeat with OPS_DEVICE=" << device_under_test() << " --gtest_filter='"
      << testing::UnitTest::GetInstance()->current_test_suite()->name() << "."
      << testing::UnitTest::GetInstance()->current_test_info()->name() << "'";
}

TEST_P(Ops, EqualTheReference) {
  const Case& c = cases()[GetParam()];
  expect_as_known(c.name, variants_of(c));
}

// Constants, views, and what other ops make, at sizes around those of vectors.
TEST_P(Ops, TakeEveryKindOfOperand) {
  const Case& c = cases()[GetParam()];
  expect_as_known(c.name, kind_variants_of(c));
}

// NaN, infinities, signed zeros, subnormal numbers and the extremes of integers, in every pair.
TEST_P(Ops, EqualTheReferenceOnSpecialValues) {
  const Case& c = cases()[GetParam()];
  expect_as_known(c.name + "/special", special_variants_of(c));
}

// Gradients against differences, in double: what REF cannot tell is whether the derivative itself is right.
TEST_P(Ops, GradientsMatchDifferences) {
  const Case& c = cases()[GetParam()];
  if (!c.differentiable || c.random || c.name.starts_with("long_") || c.name == "matmul_big") return;
  Shape shape = c.shapes == Case::Shapes::Own ? Shape{} : Shape{2, 3};
  Inputs make(dtypes::float64, Layout::Plain, device_under_test());
  Tensor value = c.build(make, shape);
  if (value.dtype().itemsize() == 2) return;  // the case itself rounds to 16 bits
  std::vector<Tensor> grads = (value * value).sum().gradient(make.inputs);
  const double step = value.dtype() == dtypes::float32 ? 1e-2 : 1e-5;
  for (std::size_t i = 0; i < make.inputs.size(); ++i) {
    std::vector<double> g = grads[i].tolist(), base = make.inputs[i].tolist();
    if (base.empty()) continue;
    // A few elements are enough: first, last, middle.
    for (std::size_t k : {std::size_t{0}, base.size() / 2, base.size() - 1}) {
      double at[2];
      for (int side = 0; side < 2; ++side) {
        struct Moved : Inputs {
          Moved(std::string d, std::size_t i, std::size_t k, double by)
              : Inputs(dtypes::float64, Layout::Plain, std::move(d)), i_(i), k_(k), by_(by) {}
          Tensor operator()(const Shape& s, double low, double high) override {
            Tensor t = Inputs::operator()(s, low, high);
            if (inputs.size() - 1 != i_) return t;
            std::vector<double> v = t.tolist();
            v[k_] += by_;
            return Tensor(v, s, {dtypes::float64, t.device()});
          }
          std::size_t i_, k_;
          double by_;
        } moved(device_under_test(), i, k, side == 0 ? -step : step);
        Tensor v = c.build(moved, shape);
        at[side] = (v * v).cast(dtypes::float64).sum().item<double>();
      }
      double numeric = (at[1] - at[0]) / (2 * step);
      double tol = value.dtype() == dtypes::float32 ? 5e-2 : 2e-4;
      EXPECT_NEAR(g[k], numeric, tol * std::max(1.0, std::fabs(numeric)))
          << c.name << " input " << i << " element " << k;
    }
  }
}

std::vector<std::size_t> all_cases() {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < cases().size(); ++i) out.push_back(i);
  return out;
}

std::string label(const testing::TestParamInfo<std::size_t>& info) {
  std::string out = cases()[info.param].name;
  for (char& ch : out)
    if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, Ops, testing::ValuesIn(all_cases()), label);

TEST(KnownFailures, AreOfCasesThatExistAndNeverOfRefOrTheCpu) {
  std::set<std::string> names;
  for (const Case& c : cases()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name << " is there twice";
    names.insert(c.name + "/special");
  }
  for (const KnownFailure& row : known_failures()) {
    EXPECT_EQ(names.count(std::string(row.name)), 1u) << row.name;
    EXPECT_NE(row.device, "REF") << row.name;
    EXPECT_NE(row.device, "CPU") << row.name;
    EXPECT_NE(registry().find(row.device), nullptr) << row.device;
    EXPECT_FALSE(row.how.empty() || row.since.empty() || row.why.empty()) << row.name;
  }
}

TEST(KnownFailures, TurnTheSuiteRedWhenTheyPassOrFailOtherwise) {
  static constexpr KnownFailure kRows[] = {{"tan", "TOY", "REF has inf", "0.1", "overflows"}};
  EXPECT_EQ(verdict(kRows, "tan", "TOY", "tan at 3: got 1, REF has inf"), "");
  EXPECT_EQ(verdict(kRows, "tan", "TOY", ""),
            "tan passes on TOY, but is a known failure since 0.1: take it out of the table");
  EXPECT_EQ(verdict(kRows, "tan", "TOY", "threw out of memory"),
            "tan is known to fail on TOY with 'REF has inf', but failed otherwise: threw out of memory");
  EXPECT_EQ(verdict(kRows, "tan", "CPU", "wrong"), "wrong");
  EXPECT_EQ(verdict(kRows, "sin", "TOY", ""), "");
}

}  // namespace
}  // namespace lathe::test
