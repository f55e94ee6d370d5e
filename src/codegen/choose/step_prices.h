// The costs of parts of a product on a target with vectors, in steps: the time in which a core does one
// multiply-add of a whole vector. Reading from a cache costs the time for its bytes, a fact of the target
// (Target::rates), times the fraction of it that other work does not hide. These fractions, and the costs of
// instructions, were measured with generated kernels (docs/benchmarks.md). They only need to rank choices.
#pragma once

#include <cstdint>

#include "target/target.h"

namespace lathe {

struct StepPrices {
  explicit StepPrices(const Target& target);

  double load;           // a vector load or a repeated scalar, beside the arithmetic it feeds
  double load_bound;     // more for a load beyond three for four multiplications: it waits
  double l1_miss;        // more for a vector load that L1 does not answer
  double half_l1_miss;   // the same where L1 holds half of them
  double l2_miss;        // more where L2 does not either
  double jumps;          // and more where the vectors of successive steps are strided
  double far_rows;       // rows that push each other out of L1
  double line;           // a line of repeated scalars, which comes from L2
  double strip_miss;     // more for a load of a strip that fills a part of L2
  double partial_sum;    // a vector of partial sums is read and written again for another block
  double copied_vector;  // to a panel, side by side
  double in_flight;      // accumulators that hide the latency of a multiply-add

  // More for a vector of so many bytes of memory, where no cache that keeps up with products holds them: a
  // copy waits for it; products do not, if it is prefetched meanwhile.
  double far(std::int64_t bytes) const { return bytes <= near_ ? 0 : bytes <= l3_ ? from_l3_ : from_memory_; }
  // The same for what all cores read: it comes from memory once for those at work, and from L3 for each of
  // them.
  double far_for_each(std::int64_t bytes) const { return near_ < l3_ && bytes > near_ ? from_l3_ : 0; }

  // Instructions alone.
  static constexpr double kMaskedLoad = 1;       // a load under a mask or a gate
  static constexpr double kCopiedElement = 1.5;  // to a panel, one element at a time
  static constexpr double kPackPart = 2;         // a part of a word that is put together from several places
  static constexpr double kSort = 0.75;          // a vector that lanes a few elements apart are picked from
  static constexpr double kStoreElement = 2;     // where lanes are not side by side
  static constexpr double kCombineLanes = 8;     // of one accumulator at the end

 private:
  std::int64_t near_, l3_;  // bytes of the last cache that keeps up, and of L3
  double from_l3_, from_memory_;
};

}  // namespace lathe
