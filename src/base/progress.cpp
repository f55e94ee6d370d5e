#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "base/env.h"
#include "base/terminal.h"
#include "base/text.h"

namespace lathe {

namespace {

constexpr int kFewestCells = 8;  // of a bar
constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kLineEvery = std::chrono::seconds(10);
constexpr auto kPatience = std::chrono::seconds(1);  // of somebody at a terminal, with work not asked for

// How long passing bars were waited for off a terminal since one of them last said something.
struct Waited {
  std::mutex mutex;
  std::chrono::steady_clock::duration time{};
};
Waited& waited() {
  static Waited all;
  return all;
}

// The filled part in eighths of a cell where the terminal can show them.
std::string bar_text(double share, int cells, bool utf8) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(share * cells * 8 + 0.5);
  std::string text;
  for (int i = 0; i < eighths / 8; i++) text += utf8 ? "█" : "#";
  int used = eighths / 8;
  if (utf8 && eighths % 8 != 0) text += kEighths[eighths % 8], used++;
  return text.append(static_cast<std::size_t>(cells - used), utf8 ? ' ' : '.');
}

// Columns the text takes, counting a UTF-8 sequence as one.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string first_columns(const std::string& text, std::size_t count) {
  std::size_t at = 0;
  for (std::size_t seen = 0; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && ++seen > count) break;
  return text.substr(0, at);
}

std::string time_text(const ProgressState& state) {
  if (state.done >= state.total) return "in " + human_seconds(state.elapsed);
  if (state.done <= 0) return "";
  const double left =
      state.elapsed * static_cast<double>(state.total - state.done) / static_cast<double>(state.done);
  return human_seconds(left) + " left";
}

}  // namespace

std::string progress_line(const ProgressState& state, const ProgressStyle& style) {
  const std::int64_t total = std::max<std::int64_t>(state.total, 1);
  const double share = std::clamp(static_cast<double>(state.done) / static_cast<double>(total), 0.0, 1.0);
  const std::string counts = fmt::format("{:3.0f}%  {}/{}", 100 * share, state.done, state.total);
  const std::string time = time_text(state);

  std::string tail = counts;
  if (!time.empty()) tail += "  " + time;
  if (!state.detail.empty()) tail += "  " + std::string(state.detail);
  if (!style.bar) return fmt::format("{}  {}", state.label, tail);

  // A line that is too long would not be drawn over.
  const int room = style.width - static_cast<int>(columns(state.label) + columns(tail)) - kFewestCells - 5;
  if (room < 0 && !state.detail.empty())
    tail = first_columns(tail, columns(tail) - std::min(columns(tail), static_cast<std::size_t>(-room)));

  // The bar takes what the words leave, within reason.
  const int words = static_cast<int>(columns(state.label) + columns(tail)) + 4;
  const int cells = std::clamp(style.width - words - 1, kFewestCells, 40);
  const std::string bar = coloured(Colour::Green, bar_text(share, cells, style.utf8), style.colours);
  return fmt::format("{} {}{}{} {}", coloured(Colour::Bold, state.label, style.colours),
                     style.utf8 ? "▕" : "[", bar, style.utf8 ? "▏" : "]", tail);
}

Progress::Progress(std::string label, std::int64_t total, ProgressOptions options)
    : label_(std::move(label)),
      total_(total),
      options_(options),
      terminal_(isatty(fileno(options.out)) == 1),
      finished_(!flag_on(Flag::Progress)) {
  if (options_.pause)
    pause_ = *options_.pause;
  else
    pause_ = terminal_ ? Clock::duration(kRedraw) : Clock::duration(kLineEvery);
  begin_ = Clock::now();
  next_draw_ = begin_ + pause_;
  if (!options_.passing || options_.pause) return;
  if (terminal_) {
    next_draw_ = begin_ + kPatience;
  } else {
    const std::lock_guard lock(waited().mutex);
    next_draw_ -= std::min(waited().time, pause_);
  }
}

Progress::~Progress() { finish(); }

void Progress::update(std::int64_t done, std::string_view detail) {
  done_ = done;
  const auto now = Clock::now();
  const bool draws = now >= next_draw_ && done < total_ && !finished_;
  if (draws || done >= total_ || !terminal_) detail_ = detail;  // the closing line shows the last detail
  if (draws) draw(now, false);
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  const auto now = Clock::now();
  if (!options_.passing) return draw(now, true);
  if (terminal_) {
    if (drawn_) write("\r\033[K");
    return;
  }
  const std::lock_guard lock(waited().mutex);
  const auto spoken = drawn_ ? next_draw_ - pause_ : begin_;
  waited().time = drawn_ ? now - spoken : waited().time + (now - spoken);
}

void Progress::draw(Clock::time_point now, bool last) {
  const ProgressState state{label_, detail_, done_, total_,
                            std::chrono::duration<double>(now - begin_).count()};
  const ProgressStyle style{terminal_width(), terminal_, locale_is_utf8(), terminal_};
  const std::string line = progress_line(state, style);
  // Clearing to the end of the line removes what a longer line left behind.
  write(terminal_ ? "\r" + line + "\033[K" + (last ? "\n" : "") : line + "\n");
  drawn_ = true;
  next_draw_ = now + pause_;
}

void Progress::write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), options_.out);
  std::fflush(options_.out);
}

}  // namespace lathe
