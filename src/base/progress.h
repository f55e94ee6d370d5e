// A progress bar with the remaining time, for long jobs. On a terminal it redraws one line a few times per
// second; elsewhere it prints a plain line now and then, so that a log shows progress without growing much.
// LATHE_PROGRESS=0 disables all of them. Updating is cheap enough for a tight loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

// What a bar shows at one moment.
struct ProgressState {
  std::string_view label;   // "epoch 1/3"
  std::string_view detail;  // "loss 0.312  accuracy 88.4%"
  std::int64_t done = 0, total = 0;
  double elapsed = 0;  // seconds
};

// How it is drawn.
struct ProgressStyle {
  int width = 80;
  bool bar = true;  // off: a plain line
  bool utf8 = false, colours = false;
};

// The line for a state, without a newline. Pure, so that tests pin it.
std::string progress_line(const ProgressState& state, const ProgressStyle& style);

// Where a bar goes and how often.
struct ProgressOptions {
  std::FILE* out = stderr;
  // Work inside a user's program that did not request it: shown only once it takes noticeable time, and a
  // terminal keeps nothing of it. Off a terminal the waits of all such bars add up to one line now and then.
  bool passing = false;
  std::optional<std::chrono::milliseconds> pause = {};  // between two drawings; tests have none
};

class Progress {
 public:
  Progress(std::string label, std::int64_t total, ProgressOptions options = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Sets how much is done and what to show beside it; draws if it is time to.
  void update(std::int64_t done, std::string_view detail = {});

  // Draws the last state and ends the line; called by the destructor if not before.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(Clock::time_point now, bool last);
  void write(const std::string& text);

  std::string label_, detail_;
  std::int64_t done_ = 0, total_;
  ProgressOptions options_;
  bool terminal_, drawn_ = false, finished_ = false;
  Clock::duration pause_;
  Clock::time_point begin_, next_draw_;
};

}  // namespace lathe
