#include <gtest/gtest.h>

#include "base/env.h"
#include "engine/engine.h"
#include "engine/kernel_check.h"
#include "lathe/lathe.h"
#include "toy.h"

namespace lathe {
namespace {

class NewBackend : public testing::Test {
 protected:
  static void SetUpTestSuite() { add_backend(test::toy_backend()); }
};

TEST_F(NewBackend, RunsTensorsOnceItsRowIsKnown) {
  TensorOptions toy;
  toy.device = "TOY";
  Tensor a({{1, 2, 3}, {4, 5, 6}}, toy), b({{1, 0}, {0, 1}, {2, 2}}, toy);
  int before = test::toy_launches();
  EXPECT_EQ(a.matmul(b).relu().tolist(), (std::vector<double>{7, 8, 16, 17}));
  EXPECT_GT(test::toy_launches(), before);
  EXPECT_EQ((a + 1).device(), "TOY");
}

TEST_F(NewBackend, AgreesWithTheCpuOnACompositeGraphAndItsGradient) {
  std::vector<double> results[2];
  int i = 0;
  for (const char* device : {"TOY", "CPU"}) {
    TensorOptions options;
    options.device = device;
    Tensor x({{0.5, -1.0, 2.0, 0.25}, {1.5, 0.0, -0.75, 1.0}}, options);
    Tensor loss = (x.softmax(-1) * x).sum();
    results[i] = loss.gradient({x})[0].tolist();
    results[i++].push_back(loss.item());
  }
  for (std::size_t k = 0; k < results[0].size(); ++k) EXPECT_NEAR(results[0][k], results[1][k], 1e-5);
}

TEST_F(NewBackend, MovesValuesToAndFromOtherDevices) {
  Tensor x({1, 2, 3});
  EXPECT_EQ((x.to("TOY") * 2).to("CPU").tolist(), (std::vector<double>{2, 4, 6}));
}

// The toy as a device that is compared with REF.
struct ComparedCompiler : Compiler {
  std::shared_ptr<const Compiler> toy = test::toy_backend().compiler("toy");
  Target facts = toy->target();
  ComparedCompiler() {
    facts.name = "far";
    facts.reference = false;
  }
  const Target& target() const override { return facts; }
  std::string version() const override { return "far 1"; }
  Binary compile(const Program& program) const override { return toy->compile(program); }
};
Backend compared_backend() {
  Backend backend = test::toy_backend();
  backend.name = "FAR";
  backend.targets = [] { return std::vector<std::string>{"far"}; };
  backend.compiler = [](std::string_view) { return std::make_shared<ComparedCompiler>(); };
  return backend;
}

// More than is ever copied for a check, in memory that the host does not reach: what REF needs of it is
// fetched, also where an index is itself such an element.
TEST(FarMemory, OfLargeInputsTheElementsThatREFNeedsAreFetched) {
  add_backend(compared_backend());
  const FlagScope first(Flag::Check, "first"), uncached(Flag::Cache, "off");
  constexpr std::int64_t kSize = (std::int64_t{72} << 20) / 4;
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(kSize));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<std::int32_t>((i * 7919 + 13) % numbers.size());
  const Tensor all = Tensor(numbers, Shape{kSize}).to("FAR").realize();
  const Tensor where = Tensor(std::vector<std::int32_t>{5, 17, 70000, 123456, 3}).to("FAR").realize();
  const engine::CheckCounts before = engine::check_counts();
  const std::vector<double> got = all.gather(0, all.gather(0, where)).tolist();
  for (std::size_t i = 0; i < 5; ++i) {
    const std::int32_t at[] = {5, 17, 70000, 123456, 3};
    EXPECT_EQ(got[i], numbers[static_cast<std::size_t>(numbers[static_cast<std::size_t>(at[i])])]);
  }
  const engine::CheckCounts now = engine::check_counts();
  EXPECT_EQ(now.unchecked, before.unchecked);
  EXPECT_GT(now.passed, before.passed);
}

}  // namespace
}  // namespace lathe
