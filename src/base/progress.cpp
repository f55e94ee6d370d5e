#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/terminal.h"
#include "base/text.h"

namespace lathe {

namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kLineEvery = std::chrono::seconds(10);

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

  // The bar takes what the words leave, within reason.
  const int words = static_cast<int>(columns(state.label) + columns(tail)) + 4;
  const int cells = std::clamp(style.width - words - 1, 8, 40);
  const std::string bar = coloured(Colour::Green, bar_text(share, cells, style.utf8), style.colours);
  return fmt::format("{} {}{}{} {}", coloured(Colour::Bold, state.label, style.colours),
                     style.utf8 ? "▕" : "[", bar, style.utf8 ? "▏" : "]", tail);
}

Progress::Progress(std::string label, std::int64_t total, std::FILE* out)
    : label_(std::move(label)), total_(total), out_(out), terminal_(isatty(fileno(out)) == 1) {
  begin_ = Clock::now();
  next_draw_ = begin_ + (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kLineEvery));
}

Progress::~Progress() { finish(); }

void Progress::update(std::int64_t done, std::string_view detail) {
  done_ = done;
  const auto now = Clock::now();
  if (now < next_draw_ && done < total_) {
    if (terminal_) return;
    detail_ = detail;  // the closing line shows the last detail
    return;
  }
  detail_ = detail;
  if (done < total_) draw(now, false);
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  draw(Clock::now(), true);
}

void Progress::draw(Clock::time_point now, bool last) {
  const ProgressState state{label_, detail_, done_, total_,
                            std::chrono::duration<double>(now - begin_).count()};
  const ProgressStyle style{terminal_width(), terminal_, locale_is_utf8(), terminal_};
  const std::string line = progress_line(state, style);
  // Clearing to the end of the line removes what a longer line left behind.
  const std::string text = terminal_ ? "\r" + line + "\033[K" + (last ? "\n" : "") : line + "\n";
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
  next_draw_ = now + (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kLineEvery));
}

}  // namespace lathe
