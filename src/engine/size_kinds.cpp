#include "engine/size_kinds.h"

#include <algorithm>
#include <numeric>

#include "base/hash.h"
#include "engine/sample_positions.h"

namespace lathe::engine {
namespace {

// Splits by more than the usual vectors and tiles would have a kernel compared at hundreds of sizes.
constexpr std::int64_t kMostRests = 64;
// A size that is in the code by mistake shows at others, whatever is split.
constexpr std::int64_t kLeastRests = 7;

std::int64_t rest_of(std::int64_t value, std::int64_t unit) { return ((value % unit) + unit) % unit; }

std::int64_t coarse_rest(std::int64_t value, std::int64_t unit) {
  const std::int64_t rest = rest_of(value, unit);
  return rest == unit - 1 ? -1 : std::min<std::int64_t>(rest, 2);
}

}  // namespace

SizeSplits size_splits(Node kernel, std::span<const Opt> options, const Target& target) {
  SizeSplits out;
  for (const std::int64_t unit : fixed_split_units(kernel, options, target)) {
    const std::int64_t both = std::lcm(out.modulus, unit);
    if (both <= kMostRests)
      out.modulus = both;
    else
      out.large.push_back(unit);
  }
  if (out.modulus < kLeastRests) out.modulus *= kLeastRests;
  return out;
}

std::uint64_t size_kind(const Program& launch, Bindings bindings, const SizeSplits& splits) {
  std::uint64_t kind = hash_all(splits.modulus, splits.large.size());
  bool least = true, greatest = true;
  for (const NodeRef& variable : launch.variables) {
    const std::int64_t value = evaluate_index(variable, bindings);
    kind = hash_combine(kind, hash_all(rest_of(value, splits.modulus)));
    for (const std::int64_t unit : splits.large)
      kind = hash_combine(kind, hash_all(unit, coarse_rest(value, unit)));
    least &= value == variable->lo();
    greatest &= value == variable->hi();
  }
  return hash_combine(kind, hash_all(least, greatest)) | 1;
}

}  // namespace lathe::engine
