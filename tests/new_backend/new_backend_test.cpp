#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lathe
