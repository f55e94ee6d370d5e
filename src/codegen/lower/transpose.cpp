#include "codegen/lower/transpose.h"

namespace lathe {

std::vector<Node> transposed(Relist& list, const std::vector<Node>& x) {
  const std::int64_t lanes = x[0].dtype().lanes;
  std::vector<Node> out;
  if (x.size() == 2) {
    for (std::int64_t q = 0; q < 2; ++q)
      out.push_back(shuffled(list, x, lanes, [&](std::int64_t i) { return i % 2 * lanes + i / 2 * 2 + q; }));
    return out;
  }
  // Within each four lanes: a0 b0 a1 b1 and a2 b2 a3 b3, then halves of two such vectors.
  for (std::int64_t half = 0; half < 2; ++half) {
    const auto weave = [&](std::size_t first) {
      return shuffled(list, std::span(x).subspan(first, 2), lanes,
                      [&](std::int64_t i) { return i % 2 * lanes + i / 4 * 4 + half * 2 + i % 4 / 2; });
    };
    const std::vector<Node> woven{weave(0), weave(2)};
    for (std::int64_t q = 0; q < 2; ++q)
      out.push_back(shuffled(list, woven, lanes, [&](std::int64_t i) {
        return (i % 4 < 2 ? 0 : lanes) + i / 4 * 4 + q * 2 + i % 2;
      }));
  }
  return out;
}

}  // namespace lathe
