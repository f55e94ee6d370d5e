#include "base/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "base/env.h"

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

TEST(Progress, WhatDoesNotFitTheTerminalIsCut) {
  const ProgressState state{"tuning r_16_16_16", "132 tried, best 12.5 µs of a long story", 30, 120, 10};
  for (int width = 52; width < 100; ++width) {
    const std::string line = progress_line(state, {.width = width, .utf8 = true});
    const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
    EXPECT_LT(columns, width) << line;
    EXPECT_TRUE(line.find(" 25%  30/120") != std::string::npos) << line;
  }
}

std::string text_of(std::FILE* file) {
  std::rewind(file);
  std::string text(4096, ' ');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

TEST(Progress, PassingWorkThatIsNotWaitedForSaysNothing) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  {
    Progress progress("compile", 20, {.out = file.get(), .passing = true});
    for (int i = 1; i <= 20; i++) progress.update(i);
  }
  EXPECT_EQ(text_of(file.get()), "");
}

TEST(Progress, PassingWorkThatIsWaitedForSaysLinesAndNoEnd) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  {
    Progress progress("compile", 3,
                      {.out = file.get(), .passing = true, .pause = std::chrono::milliseconds(0)});
    for (int i = 1; i <= 3; i++) progress.update(i, "r_4");
  }
  const std::string text = text_of(file.get());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_TRUE(text.starts_with("compile   33%  1/3  ")) << text;
}

TEST(Progress, NothingIsSaidWhereItIsSilenced) {
  const FlagScope silent(Flag::Progress, "0");
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  {
    Progress progress("train", 3, {.out = file.get(), .pause = std::chrono::milliseconds(0)});
    for (int i = 1; i <= 3; i++) progress.update(i);
  }
  EXPECT_EQ(text_of(file.get()), "");
}

TEST(Progress, AFileGetsTheClosingLineOnly) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  {
    Progress progress("train", 1000, {.out = file.get()});
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
