// What the command-line tool shows to people: a progress bar, colours, sizes, and what a misspelt word was
// meant to be. Unstable: for tools.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::dev {

// One line that is redrawn on a terminal, and a plain line now and then elsewhere.
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

bool terminal_takes_colours();  // standard output
std::string bold(std::string_view text);
std::string green(std::string_view text);
std::string red(std::string_view text);
std::string dim(std::string_view text);

std::string human_bytes(std::uint64_t bytes);
std::string human_seconds(double seconds);
std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> candidates);

// The LATHE_* flags, for `lathe help flags`.
struct FlagHelp {
  std::string name, takes, meaning;
};
std::vector<FlagHelp> flags_help();
// Reads them all once, so that a misspelt one is refused before anything runs. Throws UserError.
void check_flags();

}  // namespace lathe::dev
