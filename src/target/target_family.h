// Targets that are known by name on any machine live with the backend that compiles for them, in
// src/backends/<name>/target.cpp. The build finds those files, puts them into this folder's library and lists
// the families, so that golden files, NULL and tests can name a target without its backend.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "target/target.h"

namespace lathe {

struct TargetFamily {
  std::vector<std::string> (*names)();
  // The target of that name; nothing where it is none of the family's.
  std::optional<Target> (*find)(std::string_view name);
};

// All of them, by the name of their folder (generated).
std::span<const TargetFamily> target_families();

// Small floats: values are stored in them and computed in float, which rounds the same way on every device.
// No target computes in them so far.
std::vector<Scalar> all_small_floats();

inline constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

}  // namespace lathe
