#include "engine/kernel_check.h"

#include <fmt/format.h>

#include <charconv>

#include "base/env.h"

namespace lathe::engine {
namespace {

// Changes whenever a check would find more than it did: kernels that passed an older one are checked again.
constexpr int kCheckerVersion = 2;

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::optional<std::uint64_t> number(std::string_view line) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || end != line.data() + line.size()) return std::nullopt;
  return value;
}

}  // namespace

CheckMode check_mode() {
  const std::string& text = flag_text(Flag::Check);
  return text == "first"    ? CheckMode::First
         : text == "strict" ? CheckMode::Strict
         : text == "all"    ? CheckMode::All
                            : CheckMode::Off;
}

std::string to_text(const CheckRecord& record, std::string_view driver) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", kCheckerVersion, driver, record.sizes, record.next,
                     record.weak, record.settled ? 1 : 0, record.unchecked, record.replaced);
}

std::optional<CheckRecord> parse_check_record(std::string_view text, std::string_view driver) {
  if (number(next_line(text)) != kCheckerVersion || next_line(text) != driver) return std::nullopt;
  const auto sizes = number(next_line(text)), next = number(next_line(text)), weak = number(next_line(text)),
             settled = number(next_line(text));
  if (!sizes || !next || !weak || !settled) return std::nullopt;
  CheckRecord record;
  record.sizes = *sizes;
  record.next = static_cast<std::uint32_t>(*next);
  record.weak = static_cast<std::uint32_t>(*weak);
  record.settled = *settled != 0;
  record.unchecked = next_line(text);
  record.replaced = next_line(text);
  return record;
}

}  // namespace lathe::engine
