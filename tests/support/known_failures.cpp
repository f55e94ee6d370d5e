#include "support/known_failures.h"

#include <iterator>

#include <fmt/format.h>

namespace lathe::test {

std::span<const KnownFailure> known_failures() {
  // The first row is no failure: an array needs an element.
  static constexpr KnownFailure kTable[] = {
      {"", "", "", "", ""},
#define LATHE_KNOWN_FAILURE(name, device, how, since, why) {name, device, how, since, why},
#include "support/known_failures.def"
#undef LATHE_KNOWN_FAILURE
  };
  return {std::next(std::begin(kTable)), std::end(kTable)};
}

std::string verdict(std::span<const KnownFailure> table, std::string_view name, std::string_view device,
                    std::string_view failure) {
  for (const KnownFailure& row : table) {
    if (row.name != name || row.device != device) continue;
    if (failure.empty())
      return fmt::format("{} passes on {}, but is a known failure since {}: take it out of the table", name,
                         device, row.since);
    if (failure.find(row.how) == std::string_view::npos)
      return fmt::format("{} is known to fail on {} with '{}', but failed otherwise: {}", name, device,
                         row.how, failure);
    return "";
  }
  return std::string(failure);
}

}  // namespace lathe::test
