// Terminal output of the command-line tool: a progress bar, colours, readable sizes and suggestions for
// misspelt words. Unstable: for tools.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::dev {

// A line that is redrawn on a terminal; elsewhere a plain line is printed now and then.
class ProgressBar {
 public:
  ProgressBar(std::string label, std::int64_t total);
  ~ProgressBar();
  ProgressBar(ProgressBar&&) noexcept;
  ProgressBar& operator=(ProgressBar&&) noexcept;
  void update(std::int64_t done, std::string_view detail = {});
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

bool terminal_takes_colours();  // whether standard output does
std::string bold(std::string_view text);
std::string green(std::string_view text);
std::string red(std::string_view text);
std::string dim(std::string_view text);

std::string human_bytes(std::uint64_t bytes);
std::string human_seconds(double seconds);
std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> candidates);

// A LATHE_* flag as `lathe help flags` shows it.
struct FlagHelp {
  std::string name, takes, meaning;
};
std::vector<FlagHelp> flags_help();
// Reads all flags once, so that a misspelt one is reported before anything runs. Throws UserError.
void check_flags();

}  // namespace lathe::dev
