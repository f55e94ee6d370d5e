#include "codegen/choose/score_lanes.h"

#include "ir/build.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// So many rows pay for the panel.
constexpr std::int64_t kManyRows = 16;

bool fixed(const RangeFacts& r) { return r.constant && !r.ragged; }

// What a panel of the factor takes, for all loops inside of the outputs; nothing where that is not known.
std::optional<double> panel_bytes(Node factor, const KernelFacts& facts) {
  double bytes = factor.dtype().bytes();
  for (std::size_t r = 0; r < facts.ranges.size(); ++r) {
    if (facts.ranges[r].kind == RangeKind::Global || !facts.depends(factor, r)) continue;
    if (!fixed(facts.ranges[r])) return std::nullopt;
    bytes *= static_cast<double>(facts.ranges[r].extent);
  }
  return bytes;
}

bool side_by_side(Node load, std::size_t range, const KernelFacts& facts) {
  for (const AccessFacts& a : facts.accesses)
    if (a.node == load && a.strides[range] == 1) return true;
  return false;
}

// The sum's loop of keys and the factor that moves along it, if it is such a product of rows and keys.
std::optional<ScoreLanes::Product> score_product(Node n, std::size_t rows, const KernelFacts& facts,
                                                 const Target& target) {
  const std::int64_t lanes = target.vector_bytes / facts.element_bytes;
  if (!n.is(Op::Reduce) || reduce_op(n) != Op::Add || !n.arg(0).is(Op::Mul)) return std::nullopt;
  for (std::size_t f = 0; f < 2; ++f) {
    Node factor = n.arg(0).arg(f), other = n.arg(0).arg(1 - f);
    if (!factor.is(Op::Load) || factor.arg_count() > 2 || !factor.arg(0).is(Op::Param)) continue;
    if (facts.depends(factor, rows) || !facts.depends(other, rows)) continue;
    const std::optional<double> bytes = panel_bytes(factor, facts);
    if (!bytes || *bytes * 4 > static_cast<double>(target.l3)) continue;
    for (std::size_t keys = 0; keys < facts.ranges.size(); ++keys) {
      const RangeFacts& range = facts.ranges[keys];
      if (range.kind != RangeKind::Loop || !fixed(range) || range.extent % lanes != 0) continue;
      if (!facts.depends(factor, keys) || facts.depends(other, keys)) continue;
      if (!side_by_side(factor, keys, facts)) return ScoreLanes::Product{keys, factor};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ScoreLanes> choose_score_lanes(Node kernel, const KernelFacts& facts, const Target& target,
                                             std::int64_t together) {
  const std::int64_t lanes = target.vector_bytes / facts.element_bytes;
  std::size_t rows = facts.ranges.size();
  for (std::size_t r = 0; r < facts.ranges.size(); ++r)
    if (facts.ranges[r].kind == RangeKind::Global) rows = r;
  if (lanes < 2 || rows == facts.ranges.size() || !fixed(facts.ranges[rows]) ||
      facts.ranges[rows].extent < kManyRows)
    return std::nullopt;
  ScoreLanes out{{}, 0, rows};
  for (Node n : toposort(kernel)) {
    const std::optional<ScoreLanes::Product> product = score_product(n, rows, facts, target);
    if (!product) continue;
    const std::int64_t extent = facts.ranges[product->keys].extent;
    // The sums of all rows, the vectors they share and a repeated scalar are in registers.
    std::int64_t vectors = 4;
    while (vectors > 1 &&
           ((together + 1) * vectors + 1 > target.vector_registers || extent % (vectors * lanes) != 0))
      vectors /= 2;
    if (out.products.empty()) out.width = vectors * lanes;
    if (vectors * lanes == out.width) out.products.push_back(*product);
  }
  return out.products.empty() ? std::nullopt : std::optional(out);
}

}  // namespace lathe
