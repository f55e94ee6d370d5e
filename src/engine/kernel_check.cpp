#include "engine/kernel_check.h"

#include <fmt/format.h>

#include <charconv>

#include "base/env.h"

namespace lathe::engine {
namespace {

// Changes whenever a check would find more than it did: kernels that passed an older one are checked again.
constexpr int kCheckerVersion = 3;

std::string_view next_part(std::string_view& text, char stop = '\n') {
  const std::size_t end = std::min(text.find(stop), text.size());
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

bool CheckRecord::settled() const {
  const auto at = sizes.find(0);
  return at != sizes.end() && at->second.settled;
}

std::string to_text(const CheckRecord& record, std::string_view driver) {
  std::string sizes;
  for (const auto& [kind, size] : record.sizes)
    if (size.next > 0 || size.settled)
      sizes += fmt::format("{} {} {} ", kind, size.next, size.settled ? 1 : 0);
  return fmt::format("{}\n{}\n{}\n{}\n{}", kCheckerVersion, driver, sizes, record.unchecked, record.replaced);
}

std::optional<CheckRecord> parse_check_record(std::string_view text, std::string_view driver) {
  if (number(next_part(text)) != kCheckerVersion || next_part(text) != driver) return std::nullopt;
  CheckRecord record;
  for (std::string_view sizes = next_part(text); !sizes.empty();) {
    const auto kind = number(next_part(sizes, ' ')), next = number(next_part(sizes, ' ')),
               settled = number(next_part(sizes, ' '));
    if (!kind || !next || !settled) return std::nullopt;
    SizeCheck& size = record.sizes[*kind];
    size.next = static_cast<std::uint32_t>(*next);
    size.settled = *settled != 0;
  }
  record.unchecked = next_part(text);
  record.replaced = next_part(text);
  return record;
}

}  // namespace lathe::engine
