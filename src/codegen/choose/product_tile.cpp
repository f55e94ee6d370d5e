#include "codegen/choose/product_tile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "codegen/choose/panel_price.h"
#include "codegen/choose/step_prices.h"
#include "codegen/kernel/lanes.h"
#include "codegen/kernel/panel_layout.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "target/cache_line.h"
#include "target/matrix_units.h"

namespace lathe {
namespace {

constexpr double kGatedRows = 0.97;  // what uneven rows leave of a step, for the gates of their copies
// The number of parts that each copy their own panel. Not a fact of the machine, because the choice also
// decides how reduces are split.
constexpr double kPackers = 2;

struct Rows {
  std::vector<std::pair<std::size_t, std::int64_t>> ranges;
  std::int64_t count = 1;
  double used = 1;
  double lines = 0;  // of memory, a step, beyond those that are used whole
  double worth = 0;
};

struct SourceReach {
  struct Axis {
    double steps = 1;  // elements that all steps of the reduces reach
    bool side_by_side = false;
    std::vector<double> each;  // by range: how many more with another step of it
  };
  std::vector<Axis> axes;
  double steps = 1;  // of the reduces
};

struct Model {
  const KernelFacts& facts;
  const Target& target;
  StepPrices prices;
  std::int64_t lanes = 1;      // of a full vector
  std::int64_t registers = 1;  // for sums and what they are made of
  double products = 1;         // multiplications
  double outputs = 1;
  std::vector<char> only[2];  // by range: an output range that only this factor depends on
  std::vector<char> is_output;

  std::int64_t extent(std::size_t r) const { return facts.ranges[r].extent; }
  bool reduces(std::size_t r) const { return facts.depends(facts.reduce.arg(0), r) && !is_output[r]; }
  // Twice L1: half of it is prefetched from L2 in time, and longer blocks write partial sums less often.
  double near_bytes() const { return 2 * static_cast<double>(target.l1); }
  int bytes() const { return facts.reduce.dtype().bytes(); }
  bool usable(std::size_t r) const { return facts.ranges[r].constant && !facts.ranges[r].ragged; }

  // Strides of the loads below a factor, or of the stores, along a range: all 1 (or 0), and at least one 1.
  bool contiguous(Node below, std::size_t r) const {
    bool any = false;
    for (const AccessFacts& a : facts.accesses) {
      if (below ? a.is_store : !a.is_store) continue;
      if (a.strides[r] == 0 || (below && !is_below(below, a.node))) continue;
      if (a.strides[r] != 1) return false;
      any = true;
    }
    return any;
  }
  // The stride of a factor's lanes in elements, if they are sorted by shuffles when they are loaded, with all
  // of `rows` in registers; else 0.
  std::int64_t apart(int factor, std::size_t lane, std::span<const Node> rows) const {
    std::int64_t most = 0;
    for (Node n : below_[factor]) {
      const std::int64_t every = elements_apart(n, facts.ranges[lane].range, rows);
      if (every == 0) return 0;
      most = std::max(most, every);
    }
    return most;
  }
  bool gated(Node below) const {
    for (const AccessFacts& a : facts.accesses)
      if (!a.is_store && a.gated && is_below(below, a.node)) return true;
    return false;
  }
  // The cost of packing a factor's words each time, in addition to reading them.
  double packing(Node factor) const {
    while (factor.is(Op::Xor)) factor = factor.arg(0);
    return factor.is(Op::Pack) && packed_neighbours(factor) == 1
               ? StepPrices::kPackPart * static_cast<double>(factor.arg_count())
               : 0;
  }
  // The largest memory that a factor is read from.
  std::int64_t source_bytes(int factor) const {
    std::int64_t most = 0;
    for (Node n : below_[factor]) {
      Node memory = base_memory(n.arg(0));
      most = std::max<std::int64_t>(most, memory_size(memory) * memory.dtype().bytes());
    }
    return most;
  }
  bool is_far(int factor) const { return prices.far(source_bytes(factor)) > 0; }
  // The cost per element of copying a factor, by vectors or one by one.
  double copying(int factor, bool by_vectors, bool fetched = false) const {
    return (by_vectors ? prices.copied_vector / static_cast<double>(lanes) : StepPrices::kCopiedElement) +
           (fetched ? 0 : prices.far(source_bytes(factor)) / static_cast<double>(lanes));
  }
  bool is_below(Node root, Node n) const {
    for (std::size_t f = 0; f < 2; ++f)
      if (root == facts.factors[f])
        return std::find(below_[f].begin(), below_[f].end(), n) != below_[f].end();
    return false;
  }
  // Nothing is contiguous along the range, so an uneven split of it costs no masks.
  bool may_overrun(std::size_t r) const {
    for (const AccessFacts& a : facts.accesses)
      if (a.strides[r] == 1 || a.strides[r] == -1 || a.strides[r] == kUneven) return false;
    return true;
  }
  std::vector<Node> below_[2];

  // Cached results shared by many choices: the rows for a factor by number of vectors, gated or plain
  // scalars, and with or without a panel; the panel of a factor in the order of its source.
  mutable std::map<std::tuple<int, std::int64_t, bool, bool>, Rows> rows_;
  mutable std::optional<std::vector<PanelAxis>> source_axes_[2];
  mutable std::optional<SourceReach> reach_[2];
};

// The cost of the loads of r rows and v vectors, per multiplication.
double loads(const Model& m, double r, double v) {
  const double each = (r + v) / (r * v);
  return m.prices.load * each + m.prices.load_bound * std::max(0.0, each - 0.75);
}

double share_used(std::int64_t extent, std::int64_t size) {
  return static_cast<double>(extent) / static_cast<double>((extent + size - 1) / size * size);
}

// The axes of a factor in the order of its source, over all ranges but those it shares with the other one.
const std::vector<PanelAxis>& source_axes(const Model& m, int factor) {
  if (!m.source_axes_[factor]) {
    SmallVector<Node, 16> below;
    for (std::size_t r = 0; r < m.facts.ranges.size(); ++r)
      if (m.facts.depends(m.facts.factors[factor], r) && (m.reduces(r) || m.only[factor][r]))
        below.push_back(m.facts.ranges[r].range);
    m.source_axes_[factor] = panel_axes(m.facts.factors[factor], below, PanelOrder::Source);
  }
  return *m.source_axes_[factor];
}

// The extent of a factor along each axis of its source over all steps, for one row.
const SourceReach& source_reach(const Model& m, int factor) {
  if (m.reach_[factor]) return *m.reach_[factor];
  SourceReach made;
  const std::vector<RangeFacts>& ranges = m.facts.ranges;
  for (std::size_t r = 0; r < ranges.size(); ++r)
    if (m.reduces(r) && m.facts.depends(m.facts.factors[factor], r))
      made.steps *= static_cast<double>(m.extent(r));
  for (const PanelAxis& axis : source_axes(m, factor)) {
    made.axes.push_back({1, axis.stride == 1, std::vector<double>(ranges.size(), 0)});
    for (std::size_t r = 0; r < ranges.size(); ++r)
      for (std::size_t i = 0; i < axis.ranges.size(); ++i) {
        if (axis.ranges[i] != ranges[r].range) continue;
        const double weight = std::abs(static_cast<double>(axis.weights[i]));
        made.axes.back().each[r] = weight;
        if (m.reduces(r)) made.axes.back().steps += weight * static_cast<double>(m.extent(r) - 1);
      }
  }
  m.reach_[factor] = std::move(made);
  return *m.reach_[factor];
}

// The extra cache lines of the scalars of one step, compared with rows that use every element of their lines:
// neighbouring windows of an image share lines, windows of two images do not.
double scattered_lines(const Model& m, int factor, const Rows& rows) {
  if (!source_load(m.facts.factors[factor])) return 0;
  const SourceReach& source = source_reach(m, factor);
  double lines = 1;
  for (const SourceReach::Axis& axis : source.axes) {
    double reach = axis.steps;
    for (auto [r, size] : rows.ranges) reach += axis.each[r] * static_cast<double>(size - 1);
    lines *= axis.side_by_side ? std::max(1.0, reach * m.bytes() / static_cast<double>(kLineBytes)) : reach;
  }
  return std::max(0.0, lines / source.steps -
                           static_cast<double>(rows.count * m.bytes()) / static_cast<double>(kLineBytes));
}

// Chooses the rows: tries all sizes of one range, and pairs of even splits.
Rows choose_rows(const Model& m, int factor, std::int64_t vectors, bool gated, bool staged) {
  Rows best;
  auto consider = [&](Rows rows) {
    auto r = static_cast<double>(rows.count), v = static_cast<double>(vectors);
    rows.lines = scattered_lines(m, factor, rows);
    rows.worth = rows.used / (1 + loads(m, r, v) + m.prices.line * rows.lines / (r * v)) *
                 std::min(1.0, r * v / m.prices.in_flight);
    if (rows.worth > best.worth) best = std::move(rows);
  };
  consider({});
  // The accumulators, the vectors they are fed with, and one register for the repeated scalar.
  std::int64_t most = std::max<std::int64_t>((m.registers - vectors - 1) / vectors, 1);
  // Gated scalars are all loaded before the multiplications start.
  if (gated) most = std::max<std::int64_t>((m.registers - vectors) / (vectors + 1), 1);
  std::vector<std::size_t> ranges;  // inner ones first: with equal cost these are closer in memory
  for (std::size_t r = m.facts.ranges.size(); r-- > 0;)
    if (m.only[factor][r] && m.usable(r)) ranges.push_back(r);
  // The useful share of the work: a panel's rows are padded with zeros, under a gate if elements are
  // contiguous.
  auto wanted = [&](std::size_t r, std::int64_t size) {
    if (m.extent(r) % size == 0 || m.may_overrun(r)) return share_used(m.extent(r), size);
    return staged ? kGatedRows * share_used(m.extent(r), size) : 0;
  };
  for (std::size_t r : ranges)
    for (std::int64_t s = 2; s <= std::min(most, m.extent(r)); ++s)
      if (const double used = wanted(r, s); used > 0) consider({{{r, s}}, s, used, 0, 0});
  for (std::size_t i = 0; i < ranges.size(); ++i)
    for (std::int64_t s = 2; s <= std::min(most, m.extent(ranges[i])); ++s) {
      if (m.extent(ranges[i]) % s != 0) continue;
      for (std::size_t j = i + 1; j < ranges.size(); ++j)
        for (std::int64_t t = 2; s * t <= most && t <= m.extent(ranges[j]); ++t)
          if (m.extent(ranges[j]) % t == 0) consider({{{ranges[j], t}, {ranges[i], s}}, s * t, 1, 0, 0});
    }
  return best;
}

// Rows of the broadcast factor that are read again for each block of lanes should still be in L1. If not,
// returns how many of a step's scalars miss L1: all of them in a matrix, few in overlapping windows of an
// image.
double far_rows(const Model& m, int factor, const Rows& rows, bool again) {
  if (!again || rows.count < 2) return 0;
  Node g = m.facts.factors[factor];
  NodeMap<double> extents;
  double steps = 1;
  for (std::size_t r = 0; r < m.facts.ranges.size(); ++r) {
    if (!m.facts.depends(g, r)) continue;
    const bool reduces = m.reduces(r);
    extents.try_emplace(m.facts.ranges[r].range, reduces ? static_cast<double>(m.extent(r)) : 1);
    if (reduces) steps *= static_cast<double>(m.extent(r));
  }
  for (auto [r, size] : rows.ranges) extents[m.facts.ranges[r].range] = static_cast<double>(size);
  const auto count = static_cast<double>(rows.count);
  if (count * steps * m.bytes() <= static_cast<double>(m.target.l1) / 4) return 0;
  return source_load(g) ? std::min(1.0, source_elements(source_axes(m, factor), extents) / (steps * count))
                        : 1;
}

// The part of the reduces that one block covers: all of it, or so many steps that the data that all rows read
// again for one step of lanes stays in a cache. A reduce is divided only if its partial sums can be kept in
// the output.
struct Depth {
  std::size_t first = 0;  // the first reduce range
  std::int64_t steps = 1;
  double all = 1;   // steps of all reduces
  double here = 1;  // of those, in one block
  double blocks = 1;
};
Depth whole_depth(const Model& m) {
  Depth d;
  d.first = m.facts.ranges.size();
  for (std::size_t r = 0; r < m.facts.ranges.size(); ++r) {
    if (!m.reduces(r)) continue;
    if (d.first == m.facts.ranges.size()) d.first = r;
    d.all *= static_cast<double>(m.extent(r));
  }
  if (d.first < m.facts.ranges.size()) d.steps = m.extent(d.first);
  d.here = d.all;
  return d;
}
// The largest depth for which the data that one step of lanes reads fits `bytes`.
Depth depth_within(const Model& m, std::int64_t width, double bytes) {
  Depth d = whole_depth(m);
  if (m.facts.reduces != 1 || !m.facts.sums_in_output || d.first == m.facts.ranges.size() ||
      !m.usable(d.first))
    return d;
  std::int64_t extent = d.steps;
  double rest = d.all / static_cast<double>(extent);
  double room = bytes / static_cast<double>(width * m.bytes());
  d.steps = even_block(extent, room / rest);
  d.blocks = std::ceil(static_cast<double>(extent) / static_cast<double>(d.steps));
  d.here = static_cast<double>(d.steps) * rest;
  return d;
}

// Places the copy of the other factor, in the order of its source, for as many rows as fit a quarter of L2:
// outer row ranges are moved outside first. Returns the total number of copied elements.
double place_other(const Model& m, const Depth& depth, const Rows& rows, double times, ProductTile& tile) {
  const std::vector<RangeFacts>& ranges = m.facts.ranges;
  const int which = 1 - tile.factor;
  Node g = m.facts.factors[which];
  NodeMap<double> extents;
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    if (!m.facts.depends(g, r)) continue;
    bool fixed = !m.reduces(r) && !m.only[which][r];
    if (fixed) {
      times *= static_cast<double>(m.extent(r));
      continue;
    }
    extents.try_emplace(ranges[r].range, static_cast<double>(r == depth.first ? depth.steps : m.extent(r)));
  }
  const std::vector<PanelAxis>& axes = source_axes(m, which);
  double room = static_cast<double>(m.target.l2) / 4 / m.bytes();
  for (std::size_t r = 0; r < ranges.size() && source_elements(axes, extents) > room; ++r) {
    if (!m.only[which][r]) continue;
    std::int64_t size = 1;
    for (auto [range, n] : rows.ranges)
      if (range == r) size = n;
    std::int64_t steps = (m.extent(r) + size - 1) / size;
    double& here = *extents.find(ranges[r].range);
    here = static_cast<double>(size);
    double one = source_elements(axes, extents);
    here = static_cast<double>(size * 2);
    double more = source_elements(axes, extents) - one;
    std::int64_t fit = one > room ? 1 : even_block(steps, 1 + (room - one) / std::max(more, 1.0));
    here = static_cast<double>(fit * size);
    times *= std::ceil(static_cast<double>(steps) / static_cast<double>(fit));
    if (fit == 1) {
      tile.outside.push_back(r);
    } else {
      tile.tiled = r + 1, tile.tile = fit;
    }
  }
  bool contiguous = !axes.empty() && axes.back().stride == 1;
  return source_elements(axes, extents) * times * m.copying(which, contiguous);
}

struct OutputLanes {
  int factor;
  std::size_t lane;
  std::int64_t vectors;
  bool panel, other_panel;
  bool strips = false;  // one strip of lanes at a time in L2, all rows pass by it
};

// The share of a cache that rows of `width` elements with the stride of a factor's steps can use: the lower
// bits of an address select the cache set, so rows whose stride is a power of two share few sets.
double share_of_cache(const Model& m, Node factor, std::int64_t cache, int ways, std::int64_t width) {
  std::int64_t steps = 0, stride = 0;
  for (const AccessFacts& a : m.facts.accesses) {
    if (a.is_store || !m.is_below(factor, a.node)) continue;
    for (std::size_t r = 0; r < m.facts.ranges.size(); ++r)
      if (m.reduces(r) && m.extent(r) > steps && a.strides[r] > 1)
        steps = m.extent(r), stride = a.strides[r] * a.node.dtype().bytes();
  }
  if (stride == 0 || cache == 0) return 1;
  const std::int64_t lines = (width * m.bytes() + kLineBytes - 1) / kLineBytes;
  return std::min(
      1.0, static_cast<double>(lines * kLineBytes) / static_cast<double>(std::gcd(stride, cache / ways)));
}

// The bytes of all rows of a factor, with all their steps.
double rows_bytes(const Model& m, int factor) {
  double bytes = m.bytes();
  for (std::size_t r = 0; r < m.facts.ranges.size(); ++r)
    if (m.facts.depends(m.facts.factors[factor], r) && (m.reduces(r) || m.only[factor][r]))
      bytes *= static_cast<double>(m.extent(r));
  return bytes;
}
// Whether they fit a quarter of L2.
bool rows_fit(const Model& m, int factor) {
  return rows_bytes(m, factor) * 4 <= static_cast<double>(m.target.l2);
}
// Whether a strip stays in a quarter of L2 while rows are streamed from L3. They may take only a small part
// of L3, which other cores and other data use as well.
bool rows_pass(const Model& m, const Depth& depth, int factor, std::int64_t width) {
  const double strip = depth.here * static_cast<double>(width * m.bytes());
  return depth.blocks == 1 && strip * 4 <= static_cast<double>(m.target.l2) &&
         rows_bytes(m, factor) * 8 <= static_cast<double>(m.target.l3);
}

const Rows& rows_for(const Model& m, const OutputLanes& c, bool gated) {
  auto [known, is_new] = m.rows_.try_emplace({1 - c.factor, c.vectors, gated, c.other_panel});
  if (is_new) known->second = choose_rows(m, 1 - c.factor, c.vectors, gated, c.other_panel);
  return known->second;
}

// The cost of a vector of products in the inner loop, including its reads and the partial sums of its block.
double inner_price(const Model& m, const OutputLanes& c, const Depth& depth, const Rows& rows, bool gated) {
  Node f = m.facts.factors[c.factor], g = m.facts.factors[1 - c.factor];
  const std::int64_t width = c.vectors * m.lanes, extent = m.extent(c.lane);
  auto r = static_cast<double>(rows.count), v = static_cast<double>(c.vectors);
  bool masked = !c.panel && (m.gated(f) || extent % width != 0);
  double vector_load = (masked ? StepPrices::kMaskedLoad : m.prices.load) + (c.panel ? 0 : m.packing(f));
  const double scalar_load =
      (gated ? StepPrices::kMaskedLoad : m.prices.load) + (c.other_panel ? 0 : m.packing(g));
  bool again = m.outputs > r * static_cast<double>(extent);  // other rows read the same vectors
  const double strip = depth.here * static_cast<double>(width * m.bytes());
  const double first = c.panel ? 1 : share_of_cache(m, f, m.target.l1, m.target.l1_ways, width),
               second = c.panel ? 1 : share_of_cache(m, f, m.target.l2, m.target.l2_ways, width);
  // Strips whose rows conflict in the cache are not prefetched well either.
  if (strip > (first < 1 ? static_cast<double>(m.target.l1) * first : m.near_bytes())) {
    vector_load += c.strips ? m.prices.strip_miss : m.prices.l1_miss;
    if (!c.panel && extent > width && again) vector_load += m.prices.jumps;
  } else if (strip > static_cast<double>(m.target.l1) * first)
    vector_load += m.prices.half_l1_miss;
  // Data that is read once, without a panel, comes from memory for all block sizes.
  if ((again || c.panel) && strip > static_cast<double>(m.target.l2) * second)
    vector_load += m.prices.l2_miss;
  double inner =
      (1 + loads(m, r, v) +
       ((vector_load - m.prices.load) * v + (scalar_load - m.prices.load) * r + m.prices.line * rows.lines) /
           (v * r)) *
      std::max(1.0, m.prices.in_flight / (v * r));
  // Rows streamed from L3 are sequential, so prefetchers load them to L2 in time.
  if (c.strips)
    inner += m.prices.line * static_cast<double>(m.bytes()) / static_cast<double>(kLineBytes) / v;
  else if (!c.other_panel)
    inner += m.prices.far_rows * far_rows(m, 1 - c.factor, rows, extent > width);
  // Partial sums are spread over the whole result.
  if (depth.blocks > 1) {
    const auto sums = static_cast<std::int64_t>(m.outputs) * m.bytes();
    inner += (m.prices.partial_sum + m.prices.far_for_each(sums)) / depth.here;
  }
  return inner;
}

// The cost of copying the vector factor to its panel; also chooses the blocks of lanes in which it is copied.
double panel_copies(const Model& m, const OutputLanes& c, const Depth& depth, ProductTile& tile) {
  Node f = m.facts.factors[c.factor];
  const bool side_by_side = m.contiguous(f, c.lane);
  const std::int64_t width = tile.width, lane_steps = (m.extent(c.lane) + width - 1) / width;
  double far = 2 * static_cast<double>(m.target.l2) / (depth.here * static_cast<double>(width * m.bytes()));
  tile.lane_steps = even_block(lane_steps, far);
  // One strip of lanes is used for all rows, if they stay in a cache meanwhile.
  const bool fit = !c.other_panel && side_by_side && depth.blocks == 1 && rows_fit(m, 1 - c.factor);
  if (c.strips || fit) tile.lane_steps = 1;
  tile.from_memory = tile.lane_steps == 1 && m.is_far(c.factor);
  auto copied = static_cast<double>(lane_steps * width);
  auto shares = static_cast<double>(lane_steps);  // parts of it that different threads can copy
  for (std::size_t i = 0; i < m.facts.ranges.size(); ++i) {
    if (i == c.lane || !m.facts.depends(f, i)) continue;
    copied *= static_cast<double>(m.extent(i));
    if (m.is_output[i]) shares *= static_cast<double>(m.extent(i));
  }
  if (shares < kPackers) copied *= kPackers;
  return copied * (m.copying(c.factor, side_by_side, tile.from_memory) +
                   m.packing(f) / (side_by_side ? static_cast<double>(m.lanes) : 1));
}

void price(const Model& m, const OutputLanes& c, const Depth& depth, std::optional<ProductTile>& best) {
  const std::int64_t width = c.vectors * m.lanes, extent = m.extent(c.lane);
  const bool gated = !c.other_panel && m.gated(m.facts.factors[1 - c.factor]);
  const Rows& rows = rows_for(m, c, gated);
  ProductTile tile;
  tile.lane_range = c.lane, tile.width = width, tile.rows = rows.ranges, tile.factor = c.factor;
  tile.panel = c.panel, tile.other_panel = c.other_panel, tile.reduce_steps = depth.steps;
  const double inner = inner_price(m, c, depth, rows, gated);

  // The less frequent costs: copies and stores.
  double copied = 0, lane_blocks = 1;
  if (c.panel) {
    copied = panel_copies(m, c, depth, tile);
    lane_blocks =
        std::ceil(static_cast<double>((extent + width - 1) / width) / static_cast<double>(tile.lane_steps));
  } else {
    tile.from_memory = m.is_far(c.factor);
  }
  if (c.other_panel) copied += place_other(m, depth, rows, depth.blocks * lane_blocks, tile);
  const bool stores_along = m.contiguous(Node(), c.lane);
  double store =
      m.outputs / share_used(extent, width) *
      (stores_along ? StepPrices::kStoreElement / static_cast<double>(m.lanes) : StepPrices::kStoreElement);
  if (!stores_along) store *= 2 * depth.blocks - 1;
  double vector_products = m.products / static_cast<double>(m.lanes);
  tile.cost = inner / (share_used(extent, width) * rows.used) + (store + copied) / vector_products;
  if (!best || tile.cost < best->cost) best = tile;
}

void price_output_lanes(const Model& m, std::optional<ProductTile>& best) {
  Depth whole = whole_depth(m);
  if (whole.first == m.facts.ranges.size()) return;
  for (int factor = 0; factor < 2; ++factor) {
    Node f = m.facts.factors[factor], g = m.facts.factors[1 - factor];
    for (std::size_t lane = 0; lane < m.facts.ranges.size(); ++lane) {
      if (!m.only[factor][lane] || !m.usable(lane)) continue;
      for (std::int64_t vectors = 1; vectors <= 4; ++vectors) {
        if (vectors > 1 && (vectors - 1) * m.lanes >= m.extent(lane)) break;
        // Strided lanes are no vectors without a panel.
        if (m.contiguous(f, lane)) price(m, {factor, lane, vectors, false, false}, whole, best);
        Depth near = depth_within(m, vectors * m.lanes, m.near_bytes());
        Depth second = depth_within(m, vectors * m.lanes, static_cast<double>(m.target.l2) / 2);
        if (rows_pass(m, whole, 1 - factor, vectors * m.lanes))
          price(m, {factor, lane, vectors, true, false, true}, whole, best);
        for (bool other : {false, true}) {
          if (other && !source_load(g)) continue;
          price(m, {factor, lane, vectors, true, other}, whole, best);
          if (near.blocks > 1) price(m, {factor, lane, vectors, true, other}, near, best);
          if (second.blocks > 1 && second.blocks < near.blocks)
            price(m, {factor, lane, vectors, true, other}, second, best);
        }
      }
    }
  }
}

// Rows of both factors, as many as fit together with an accumulator per pair: the rows of one factor are in
// registers for a step, those of the other are loaded one at a time.
std::vector<std::pair<std::size_t, std::int64_t>> square_tile(const Model& m, double& a, double& b,
                                                              double& used) {
  struct Side {
    std::size_t range = 0;
    std::int64_t size = 1;
    double used = 1;
  };
  constexpr std::int64_t kMost = 6, kLong = 16;
  std::vector<Side> sides[2] = {{{}}, {{}}};
  for (int factor = 0; factor < 2; ++factor)
    for (std::size_t r = 0; r < m.facts.ranges.size(); ++r)
      for (std::int64_t s = 2; s <= kMost && m.only[factor][r] && m.usable(r); ++s)
        if (m.extent(r) % s == 0 || (m.may_overrun(r) && m.extent(r) > kLong))
          sides[factor].push_back({r, s, share_used(m.extent(r), s)});
  double least = 0;
  std::vector<std::pair<std::size_t, std::int64_t>> rows;
  for (const Side& x : sides[0])
    for (const Side& y : sides[1]) {
      if (x.size * y.size + std::min(x.size, y.size) + 1 > m.target.vector_registers) continue;
      const auto p = static_cast<double>(x.size), q = static_cast<double>(y.size);
      const double cost =
          (1 + loads(m, p, q)) * std::max(1.0, m.prices.in_flight / (p * q)) / (x.used * y.used);
      if (least != 0 && cost >= least) continue;
      least = cost, a = p, b = q, used = x.used * y.used;
      rows.clear();
      if (x.size > 1) rows.emplace_back(x.range, x.size);
      if (y.size > 1) rows.emplace_back(y.range, y.size);
    }
  return rows;
}

// The cost of sorting the lanes of a vector of a factor along a reduce: nothing where they are contiguous,
// and no price where they are loaded one by one.
std::optional<double> sorted_lanes(const Model& m, int factor, std::size_t lane) {
  if (m.contiguous(m.facts.factors[factor], lane)) return 0;
  const std::int64_t every = m.apart(factor, lane, {});
  return every > 0 ? std::optional(StepPrices::kSort * static_cast<double>(every)) : std::nullopt;
}

// Both factors contiguous along one reduce range, or nearly so: lanes along it, a square tile of
// accumulators, lanes combined at the end.
void price_reduce_lanes(const Model& m, std::optional<ProductTile>& best) {
  for (std::size_t lane = 0; lane < m.facts.ranges.size(); ++lane) {
    if (!m.reduces(lane) || !m.usable(lane) || m.facts.ranges[lane].carries_tuple) continue;
    const std::optional<double> sorted[2] = {sorted_lanes(m, 0, lane), sorted_lanes(m, 1, lane)};
    if (!sorted[0] || !sorted[1]) continue;
    std::int64_t extent = m.extent(lane);
    if (extent < m.lanes / 2) continue;
    std::int64_t power = 1;
    while (power < m.lanes && extent % (power * 2) == 0) power *= 2;
    for (std::int64_t width : {m.lanes, power}) {
      if (width < 2) continue;
      bool even = extent % width == 0;
      ProductTile tile;
      tile.lane_range = lane, tile.width = width, tile.lanes_reduce = true;
      double a = 1, b = 1;
      double used_rows = 1;
      tile.rows = square_tile(m, a, b, used_rows);
      const bool plain = even && !m.gated(m.facts.factors[0]) && !m.gated(m.facts.factors[1]);
      // A small tile takes several vectors per step, each with its own accumulators.
      double in_flight = a * b;
      while (tile.width < 4 * width && extent % (tile.width * 2) == 0 &&
             in_flight * 2 <= 2 * m.prices.in_flight)
        tile.width *= 2, in_flight *= 2;
      // The rows of one side are read again for each row of the other side, from L1 if they fit; the other
      // side is streamed.
      const double row = whole_depth(m).all * m.bytes(), near = static_cast<double>(m.target.l1) / 2;
      double behind = 0;
      if (m.outputs > a * b && m.outputs * row > near) behind += m.prices.l1_miss * std::min(a, b);
      if (std::max(a, b) * row > near) behind += m.prices.l1_miss * std::max(a, b);
      double inner = (1 + loads(m, a, b) + (behind + *sorted[0] * a + *sorted[1] * b) / (a * b) +
                      (plain ? 0 : (StepPrices::kMaskedLoad - m.prices.load) * (a + b) / (a * b))) *
                     std::max(1.0, m.prices.in_flight / in_flight);
      double used =
          used_rows * share_used(extent, width) * static_cast<double>(width) / static_cast<double>(m.lanes);
      double cost =
          inner / used + m.outputs * StepPrices::kCombineLanes / (m.products / static_cast<double>(m.lanes));
      if (best && best->cost <= cost) continue;
      tile.cost = cost;
      best = tile;
    }
  }
}

// Few outputs and a long reduce: all outputs in registers, lanes along the reduce. A factor that is not
// contiguous along it is sorted by shuffles if its lanes have a small stride, else copied some steps at a
// time, lanes last.
void price_few_outputs(const Model& m, std::optional<ProductTile>& best) {
  double count[2] = {1, 1};
  ProductTile tile;
  std::vector<Node> rows;
  for (std::size_t r = 0; r < m.facts.ranges.size(); ++r)
    for (int f = 0; f < 2; ++f) {
      if (!m.only[f][r]) continue;
      if (!m.usable(r)) return;
      count[f] *= static_cast<double>(m.extent(r));
      rows.push_back(m.facts.ranges[r].range);
      if (m.extent(r) > 1) tile.rows.emplace_back(r, m.extent(r));
    }
  double accumulators = count[0] * count[1];
  if (accumulators + count[0] + 1 > m.target.vector_registers) return;
  for (std::size_t lane = 0; lane < m.facts.ranges.size(); ++lane) {
    if (!m.reduces(lane) || !m.usable(lane) || m.facts.ranges[lane].carries_tuple) continue;
    if (m.extent(lane) < 16 * m.lanes) continue;
    double copied = 0;
    tile.stage[0] = tile.stage[1] = false;
    for (int f = 0; f < 2; ++f) {
      if (m.contiguous(m.facts.factors[f], lane) && !m.gated(m.facts.factors[f])) continue;
      if (const std::int64_t every = m.apart(f, lane, rows); every > 0) {
        copied += StepPrices::kSort * static_cast<double>(every) * count[f];
        continue;
      }
      tile.stage[f] = true;
      copied += StepPrices::kCopiedElement * static_cast<double>(m.lanes) * count[f];
    }
    if (copied == 0) continue;  // priced as lanes along a reduce already
    tile.lane_range = lane, tile.width = m.lanes, tile.lanes_reduce = true;
    double room = static_cast<double>(m.target.l1) / 2 / m.bytes() / (count[0] + count[1]);
    tile.reduce_steps =
        even_block((m.extent(lane) + m.lanes - 1) / m.lanes, room / static_cast<double>(m.lanes));
    tile.cost = (1 + m.prices.load * (count[0] + count[1]) / accumulators) *
                    std::max(1.0, m.prices.in_flight / accumulators) +
                copied / accumulators;
    if (!best || tile.cost < best->cost) best = tile;
  }
}

}  // namespace

std::optional<ProductTile> choose_product_tile(const KernelFacts& facts, const Target& target) {
  if (!facts.factors[0] || target.vector_bytes == 0) return std::nullopt;
  Model m{facts, target, StepPrices(target), 1, target.vector_registers, 1, 1, {}, {}, {}, {}, {}, {}};
  if (facts.reduce.arg(0).is(Op::Dot))
    if (const MatrixUnit* unit = unit_for_dot(target.units, facts.reduce.arg(0).text()))
      m.registers -= scratch_registers(*unit);
  m.lanes = std::max(target.vector_bytes / facts.reduce.dtype().bytes(), 1);
  for (std::size_t f = 0; f < 2; ++f) {
    m.only[f].assign(facts.ranges.size(), 0);
    for (Node n : toposort(facts.factors[f]))
      if (n.is(Op::Load)) m.below_[f].push_back(n);
  }
  m.is_output.assign(facts.ranges.size(), 0);
  std::span<const Node> closed = closed_ranges(facts.reduce);
  for (std::size_t r = 0; r < facts.ranges.size(); ++r) {
    const RangeFacts& range = facts.ranges[r];
    if (!facts.depends(facts.reduce.arg(0), r)) continue;
    m.products *= static_cast<double>(range.extent);
    m.is_output[r] = std::find(closed.begin(), closed.end(), range.range) == closed.end();
    if (!m.is_output[r]) continue;
    if (range.kind != RangeKind::Global) return std::nullopt;  // a reduce inside another: not this form
    m.outputs *= static_cast<double>(range.extent);
    bool in[2] = {facts.depends(facts.factors[0], r), facts.depends(facts.factors[1], r)};
    for (int f = 0; f < 2; ++f) m.only[f][r] = in[f] && !in[1 - f];
  }
  std::optional<ProductTile> best;
  price_output_lanes(m, best);
  price_reduce_lanes(m, best);
  price_few_outputs(m, best);
  return best;
}

}  // namespace lathe
