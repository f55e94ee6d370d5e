// Live memory explains itself: which line made what is held.
#include <gtest/gtest.h>

#include <algorithm>

#include "lathe/lathe.h"

namespace lathe {
namespace {

std::string line_text(int line) { return "memory_report_test.cpp:" + std::to_string(line); }

std::size_t held_by(const std::string& place) {
  const std::vector<LiveBuffer> all = live_buffers();
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [&](const LiveBuffer& b) { return b.made == place; }));
}

TEST(MemoryReport, ALeakIsNamedByItsLine) {
  std::vector<Tensor> leak;
  int line = 0;
  for (int step = 0; step < 5; ++step) {
    const MadeAt here;
    line = __LINE__ - 1;
    leak.push_back((Tensor::ones({64, 64}) * step).contiguous().realize());
  }
  EXPECT_EQ(held_by(line_text(line)), 5u);
  const std::string report = memory_report();
  EXPECT_NE(report.find("5 x 16.0 KiB"), std::string::npos) << report;
  EXPECT_NE(report.find(line_text(line)), std::string::npos) << report;
  leak.clear();
  EXPECT_EQ(held_by(line_text(line)), 0u);
}

TEST(MemoryReport, TheLineIsWhereATensorWasMadeNotWhereItWasComputed) {
  Tensor x, y;
  int line = 0;
  {
    const MadeAt here;
    line = __LINE__ - 1;
    x = Tensor(std::vector<float>{1, 2, 3}) + 1;
    y = x.exp();
  }
  EXPECT_EQ(y.tolist().size(), 3u);
  y.realize();
  EXPECT_GE(held_by(line_text(line)), 1u);
}

TEST(MemoryReport, WithoutALineTheOpsThatMadeItNameIt) {
  Tensor x = (Tensor(std::vector<float>(333, 1.0f)).exp2() + 1).contiguous().realize();
  const std::vector<LiveBuffer> all = live_buffers();
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const LiveBuffer& b) {
    return b.bytes == 333 * 4 && b.made.find("Exp2") != std::string::npos && b.device == "CPU";
  })) << memory_report();
}

int shown = 0;
struct Counted : ProgramPlace {
  std::string text() const override {
    ++shown;
    return "script.py:7";
  }
};

TEST(MemoryReport, AHookSaysThePlaceAndIsPutIntoWordsOnlyWhenShown) {
  set_place_hook([]() -> PlaceRef { return std::make_shared<Counted>(); });
  Tensor x = (Tensor(std::vector<float>{1, 2}) * 3).realize();
  set_place_hook(nullptr);
  EXPECT_EQ(x.tolist(), (std::vector<double>{3, 6}));
  EXPECT_EQ(shown, 0);
  EXPECT_GE(held_by("script.py:7"), 1u);
  EXPECT_GT(shown, 0);
}

TEST(MemoryReport, AThousandTrainingStepsHoldAsManyBuffersAsTen) {
  Tensor w = Tensor(std::vector<float>(16, 0.5f), {4, 4}).requires_grad_();
  const Tensor x = Tensor(std::vector<float>(8, 0.25f), {2, 4}).realize();
  std::size_t early = 0, late = 0;
  for (int step = 0; step < 1000; ++step) {
    Tensor loss = (x.matmul(w) - 1).square().mean();
    Tensor gradient = loss.gradient({w})[0];
    {
      const NoGradScope no_grad;
      w.assign(w.detach() - gradient * 0.1);
    }
    w.realize();
    late = live_buffers().size();
    if (step == 10) early = late;
  }
  EXPECT_EQ(late, early) << memory_report();
}

}  // namespace
}  // namespace lathe
