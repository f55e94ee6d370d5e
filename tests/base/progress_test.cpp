#include "base/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace lathe {
namespace {

TEST(Progress, ABarShowsShareCountsTimeLeftAndDetail) {
  const ProgressState state{"epoch 1/3", "loss 0.31", 30, 120, 10};
  EXPECT_EQ(progress_line(state, {.width = 66}),
            "epoch 1/3 [####............]  25%  30/120  30.0 s left  loss 0.31");
  EXPECT_EQ(progress_line(state, {.width = 66, .utf8 = true}),
            "epoch 1/3 ▕████            ▏  25%  30/120  30.0 s left  loss 0.31");
}

TEST(Progress, AtTheEndItSaysHowLongItTook) {
  const ProgressState state{"build", "", 8, 8, 75};
  EXPECT_EQ(progress_line(state, {.bar = false}), "build  100%  8/8  in 1m15s");
}

TEST(Progress, NoTimeIsGuessedBeforeAnythingIsDone) {
  EXPECT_EQ(progress_line({"build", "", 0, 8, 3}, {.bar = false}), "build    0%  0/8");
}

TEST(Progress, AFileGetsTheClosingLineOnly) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  {
    Progress progress("train", 1000, file.get());
    for (int i = 1; i <= 1000; i++) progress.update(i, "loss 1");
  }
  std::rewind(file.get());
  char text[200] = "";
  const std::size_t count = std::fread(text, 1, sizeof(text) - 1, file.get());
  const std::string_view line(text, count);
  EXPECT_TRUE(line.starts_with("train  100%  1000/1000  in ")) << line;
  EXPECT_TRUE(line.ends_with("loss 1\n")) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
}

}  // namespace
}  // namespace lathe
