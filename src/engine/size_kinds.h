// Classes of sizes of a kernel with variables: the code behaves alike at two sizes with the same remainder
// modulo the options' split sizes. One size per class is compared with REF, plus the least and the greatest;
// for a kernel without splits a few sizes. The classes depend only on the kernel and its options, not on the
// order of runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels.h"
#include "ir/program.h"
#include "lathe/options.h"
#include "target/target.h"

namespace lathe::engine {

struct SizeSplits {
  std::int64_t modulus = 1;         // of splits for which every rest is a kind of its own
  std::vector<std::int64_t> large;  // others: no rest, the first, the last and any other are four kinds
  bool operator==(const SizeSplits&) const = default;
};
SizeSplits size_splits(Node kernel, std::span<const Opt> options, const Target& target);

// A number for the kind that the bindings are of; never 0, which stands for kernels without variables.
std::uint64_t size_kind(const Program& launch, Bindings bindings, const SizeSplits& splits);

}  // namespace lathe::engine
