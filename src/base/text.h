// Text helpers shared by several folders: suggestions for misspelt words, and readable sizes and times.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lathe {

// Fewest single-character insertions, deletions and replacements that turn one word into the other.
int edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word` if it is near enough to be a misspelling, else nothing.
std::optional<std::string_view> nearest_word(std::string_view word,
                                             std::span<const std::string_view> candidates);

// 1536 -> "1.5 KiB".
std::string human_bytes(std::uint64_t bytes);

// 0.0000123 -> "12.3 us"; 75 -> "1m15s".
std::string human_seconds(double seconds);

}  // namespace lathe
