// The gain of vectors along a range of a kernel, and the number of lanes it has room for.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/choose/kernel_facts.h"
#include "target/target.h"

namespace lathe {

// Reduces over windows and such have no loop up to this many steps.
inline constexpr std::int64_t kSmallReduce = 9;

inline bool can_split(const RangeFacts& r) { return r.constant && !r.ragged && r.extent > 1; }

// How much of a range becomes lanes: whole vectors or halves of them that fit evenly, up to `most` vectors
// for independent work in flight; else vectors under a mask, where the target masks cheaply, as many as leave
// few lanes without work; else the largest power of two that fits evenly.
std::int64_t lane_width(const Target& target, std::int64_t extent, int element_bytes, std::int64_t most);

// The short output range whose steps are all that is between lanes along another: in registers as a whole,
// shuffles make whole vectors of the two.
std::optional<std::size_t> range_between(const KernelFacts& facts, const Target& target, const AccessFacts& a,
                                         std::size_t r);

// Whether lanes along a range are sorted by shuffles, with short reduces and what is between unrolled.
bool sorts_lanes(const KernelFacts& facts, const Target& target, const AccessFacts& a, std::size_t r);

// Contiguous accesses and those that shuffles sort, less those that would be taken apart, by how often they
// happen.
double lane_gain(const KernelFacts& facts, const Target& target, std::size_t r);

}  // namespace lathe
