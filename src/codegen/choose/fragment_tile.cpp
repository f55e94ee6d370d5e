#include "codegen/choose/panel_price.h"
#include "codegen/choose/product_tile.h"

namespace lathe {

ProductTile fragment_tile(const KernelFacts& facts, const Target& target, std::size_t lane, std::size_t row,
                          const std::vector<std::int64_t>& left, const std::vector<std::int64_t>& taken) {
  ProductTile tile;
  tile.lane_range = lane;
  tile.factor = facts.depends(facts.factors[0], lane) ? 0 : 1;
  tile.panel = tile.other_panel = tile.fragments = true;
  double depth = 4;  // bytes of one row or column in a block
  std::size_t first = facts.ranges.size();
  for (std::size_t r = 0; r < facts.ranges.size(); ++r)
    if (facts.ranges[r].kind == RangeKind::Reduce && facts.depends(facts.reduce.arg(0), r)) {
      if (first == facts.ranges.size()) first = r;
      depth *= static_cast<double>(facts.ranges[r].extent);
    }
  tile.reduce_steps = left[first];
  const double all_depth = depth;
  const auto l2 = static_cast<double>(target.l2);
  if (facts.sums_in_output && facts.reduces == 1) {
    // Sums go through memory between blocks, which costs more than columns that come from L2:
    // so only what would leave no room for several columns is divided.
    const double strip = depth * static_cast<double>(taken[lane]);
    tile.reduce_steps = even_block(left[first], static_cast<double>(left[first]) * l2 / 8 / strip);
    depth *= static_cast<double>(tile.reduce_steps) / static_cast<double>(left[first]);
  }
  // Columns are packed once and stream from L2; a step of rows is packed just before it is used
  // with all columns of the block, and stays in L1 meanwhile.
  tile.lane_steps = even_block(left[lane], l2 / 2 / (depth * static_cast<double>(taken[lane])));
  double rows = all_depth;  // bytes of all of them
  for (std::size_t r = 0; r < facts.ranges.size(); ++r) {
    if (facts.ranges[r].kind != RangeKind::Global || !facts.depends(facts.factors[1 - tile.factor], r) ||
        facts.depends(facts.factors[tile.factor], r))
      continue;
    rows *= static_cast<double>(facts.ranges[r].extent);
    if (r != row) tile.outside.push_back(r);
  }
  tile.outside.push_back(row);
  // Where there are many blocks of columns, packing all rows once and reading them from the last cache in
  // their order is less than packing them for each.
  constexpr std::int64_t kManyBlocks = 5;
  tile.other_first =
      left[lane] >= tile.lane_steps * kManyBlocks && rows * 8 <= static_cast<double>(target.l3);
  return tile;
}

}  // namespace lathe
