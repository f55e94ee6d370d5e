#include "lathe/dev/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "base/env.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text.h"

namespace lathe::dev {

struct ProgressBar::Impl {
  Impl(std::string label, std::int64_t total) : progress(std::move(label), total) {}
  Progress progress;
};

ProgressBar::ProgressBar(std::string label, std::int64_t total)
    : impl_(std::make_unique<Impl>(std::move(label), total)) {}
ProgressBar::~ProgressBar() = default;
ProgressBar::ProgressBar(ProgressBar&&) noexcept = default;
ProgressBar& ProgressBar::operator=(ProgressBar&&) noexcept = default;
void ProgressBar::update(std::int64_t done, std::string_view detail) { impl_->progress.update(done, detail); }
void ProgressBar::finish() { impl_->progress.finish(); }

bool terminal_takes_colours() {
  static const bool takes = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  return takes;
}
std::string bold(std::string_view text) { return coloured(Colour::Bold, text, terminal_takes_colours()); }
std::string green(std::string_view text) { return coloured(Colour::Green, text, terminal_takes_colours()); }
std::string red(std::string_view text) { return coloured(Colour::Red, text, terminal_takes_colours()); }
std::string dim(std::string_view text) { return coloured(Colour::Dim, text, terminal_takes_colours()); }

std::string human_bytes(std::uint64_t bytes) { return lathe::human_bytes(bytes); }
std::string human_seconds(double seconds) { return lathe::human_seconds(seconds); }

std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> candidates) {
  const std::vector<std::string_view> views(candidates.begin(), candidates.end());
  const auto found = lathe::nearest_word(word, views);
  return found ? std::optional<std::string>(*found) : std::nullopt;
}

std::vector<FlagHelp> flags_help() {
  std::vector<FlagHelp> rows;
  for (const FlagInfo& flag : flag_table())
    rows.push_back({std::string(flag.name), std::string(flag.allowed), std::string(flag.help)});
  return rows;
}

void check_flags() { flag_value(Flag::Debug); }

}  // namespace lathe::dev
