// Which sizes of a kernel with variables are alike: its code does the same at two sizes that leave the same
// rest when they are divided by what the options split their ranges by. One size of each kind is compared
// with REF, and the least and the greatest; a few of a kernel without splits. The kinds follow from kernel
// and options alone, whatever is run first.
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
