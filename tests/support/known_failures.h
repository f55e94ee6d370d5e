// The table of known failures (R75) and the verdict it gives on a run: what is listed must fail as listed,
// what is not must pass.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lathe::test {

struct KnownFailure {
  std::string_view name, device, how, since, why;
};
std::span<const KnownFailure> known_failures();

// `failure` is how a case failed on a device, or empty. The result is empty where that is what the table
// expects, else the reason why the suite is red.
std::string verdict(std::span<const KnownFailure> table, std::string_view name, std::string_view device,
                    std::string_view failure);

}  // namespace lathe::test
