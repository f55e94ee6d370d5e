// Shuffles of a program's vectors, shared by the passes that make whole vectors of strided accesses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/lower/relist.h"
#include "ir/build.h"

namespace lathe {

// Lane i of the result is lane `pick(i)` of the vectors, counted from the first one's lanes on.
template <class Pick>
Node shuffled(Relist& list, std::span<const Node> from, std::int64_t lanes, Pick pick) {
  const std::int64_t length = from[0].dtype().lanes;
  std::vector<Node> picked;
  for (std::int64_t i = 0; i < lanes; ++i) {
    const std::int64_t at = pick(i);
    // Not `lane()`, which would look through the vectors that the step before made.
    picked.push_back(list.put(intern(Op::Lane, from[0].dtype().element(),
                                     {from[static_cast<std::size_t>(at / length)]}, Attr::of(at % length))));
  }
  return list.put(vec(picked));
}

// Two or four vectors as so many others: of every two or four lanes, the first has the first of each vector,
// the second the second, and so on.
std::vector<Node> transposed(Relist& list, const std::vector<Node>& x);

}  // namespace lathe
