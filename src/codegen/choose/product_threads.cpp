#include "codegen/choose/product_threads.h"

#include <algorithm>

#include "base/small_vector.h"
#include "codegen/choose/panel_price.h"
#include "codegen/choose/step_prices.h"
#include "codegen/kernel/panel_layout.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {

double parts_steps(std::int64_t extent, std::int64_t parts, std::int64_t cores) {
  const std::int64_t rounds = (parts + cores - 1) / cores, steps = (extent + parts - 1) / parts;
  return static_cast<double>(rounds * steps) * (extent % parts == 0 ? 1 : 1.03);
}

// Every part does its share of the products, in as many rounds as there are parts for a core, and copies for
// itself, or fetches from far away, what its range does not divide. So tall products are cut by rows, wide
// ones by columns.
ThreadParts choose_product_threads(const KernelFacts& facts, const Target& target, const ProductTile& tile,
                                   const std::vector<std::int64_t>& left, std::int64_t most_parts) {
  double products = 1, copies[2] = {0, 0}, far[2] = {0, 0};
  for (std::size_t r = 0; r < facts.ranges.size(); ++r)
    if (facts.depends(facts.reduce.arg(0), r)) products *= static_cast<double>(facts.ranges[r].extent);
  const StepPrices prices(target);
  const double lanes = std::max(target.vector_bytes / facts.reduce.dtype().bytes(), 1);
  for (int f = 0; f < 2; ++f) {
    SmallVector<Node, 16> ranges;
    NodeMap<double> extents;
    for (const RangeFacts& r : facts.ranges)
      if (depends_on(facts.factors[f], r.range)) {
        ranges.push_back(r.range);
        extents.try_emplace(r.range, static_cast<double>(r.extent));
      }
    const bool source = f != tile.factor && !tile.fragments;
    std::vector<PanelAxis> axes =
        panel_axes(facts.factors[f], ranges, source ? PanelOrder::Source : PanelOrder::Consumer);
    // By vectors where the panel's neighbours are the source's.
    bool side_by_side = source && !axes.empty() && axes.back().stride == 1;
    for (const PanelAxis& axis : axes)
      side_by_side |= !source && axis.ranges[0] == facts.ranges[tile.lane_range].range && axis.stride == 1;
    const double elements = source_elements(axes, extents);
    if (const Node load = source_load(facts.factors[f])) {
      const Node memory = base_memory(load.arg(0));
      far[f] = elements * prices.far_for_each(memory_size(memory) * memory.dtype().bytes());
    }
    copies[f] = elements * (side_by_side ? prices.copied_vector : StepPrices::kCopiedElement * lanes);
  }
  const bool panels[2] = {tile.factor == 0 ? tile.panel : tile.other_panel,
                          tile.factor == 1 ? tile.panel : tile.other_panel};
  const auto cores = static_cast<std::int64_t>(target.cores);
  ThreadParts best;
  double least = products;
  for (std::size_t r = 0; r < facts.ranges.size(); ++r)
    for (std::int64_t parts = 2; parts <= std::min(left[r], most_parts); ++parts) {
      const std::int64_t rounds = (parts + cores - 1) / cores;
      double time = products * parts_steps(left[r], parts, cores) / static_cast<double>(left[r]);
      for (int f = 0; f < 2; ++f)
        if (!facts.depends(facts.factors[f], r))
          time += static_cast<double>(rounds) * (panels[f] ? copies[f] : far[f]);
      // Of equals the most parts: a core that is slowed down holds up little.
      if (time <= least * (r == best.range || best.parts == 1 ? 1 : 0.99)) least = time, best = {r, parts};
    }
  return best;
}

}  // namespace lathe
