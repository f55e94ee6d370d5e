#include "codegen/product_tile.h"

#include <algorithm>
#include <cmath>

#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// Prices, in steps of one vector operation. They only need to order the choices.
constexpr double kLoad = 0.5;  // a vector load or a repeated scalar, beside the arithmetic it feeds
constexpr double kMaskedLoad = 1.5;
constexpr double kCopyElement = 2;     // to a panel, one element at a time
constexpr double kStoreElement = 1.5;  // where lanes are not side by side
constexpr double kCombineLanes = 8;    // of one accumulator at the end
constexpr double kPackers = 2;  // parts that each copy a panel for themselves; no fact of the machine, since
                                // the choice also decides how reduces are split
constexpr double kEnoughInFlight = 8;  // accumulators that hide the latency of a multiply-add

struct Model {
  const KernelFacts& facts;
  const Target& target;
  std::int64_t lanes = 1;   // of a full vector
  std::int64_t budget = 1;  // accumulators that fit the registers
  double products = 1;      // multiplications
  double outputs = 1;
  std::vector<char> only[2];  // by range: an output range that only this factor depends on
  std::vector<char> is_output;

  std::int64_t extent(std::size_t r) const { return facts.ranges[r].extent; }
  bool reduces(std::size_t r) const { return facts.depends(facts.reduce.arg(0), r) && !is_output[r]; }
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
  bool gated(Node below) const {
    for (const AccessFacts& a : facts.accesses)
      if (!a.is_store && a.gated && is_below(below, a.node)) return true;
    return false;
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
};

double share_used(std::int64_t extent, std::int64_t size) {
  return static_cast<double>(extent) / static_cast<double>((extent + size - 1) / size * size);
}

struct Rows {
  std::vector<std::pair<std::size_t, std::int64_t>> ranges;
  std::int64_t count = 1;
  double used = 1;
  double worth = 0;
};

void consider(Rows rows, std::int64_t vectors, Rows& best) {
  auto r = static_cast<double>(rows.count), v = static_cast<double>(vectors);
  rows.worth = rows.used / (1 + kLoad * (r + v) / (r * v)) * std::min(1.0, r * v / kEnoughInFlight);
  if (rows.worth > best.worth) best = rows;
}

// How much of which ranges: all sizes of one range, and pairs of even splits.
Rows choose_rows(const Model& m, int factor, std::int64_t vectors) {
  Rows best;
  consider({}, vectors, best);
  // The accumulators, the vectors they are fed with, and, where the multiplication cannot read a repeated
  // scalar from memory (only the machines with many registers can), one register for that.
  std::int64_t others = vectors + (m.target.vector_registers >= 32 ? 0 : 1);
  std::int64_t most =
      std::max<std::int64_t>(std::min(m.budget, m.target.vector_registers - others) / vectors, 1);
  // A gated scalar is repeated into a register of its own instead of being read by the multiplication.
  if (m.gated(m.facts.factors[factor]))
    most = std::max<std::int64_t>((m.target.vector_registers - vectors) / (vectors + 1), 1);
  std::vector<std::size_t> ranges;
  for (std::size_t r = 0; r < m.facts.ranges.size(); ++r)
    if (m.only[factor][r] && m.usable(r)) ranges.push_back(r);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    std::int64_t extent = m.extent(ranges[i]);
    for (std::int64_t s = 2; s <= std::min(most, extent); ++s) {
      bool even = extent % s == 0;
      if (!even && !m.may_overrun(ranges[i])) continue;
      consider({{{ranges[i], s}}, s, share_used(extent, s), 0}, vectors, best);
      if (!even) continue;
      for (std::size_t j = 0; j < i; ++j)
        for (std::int64_t t = 2; s * t <= most && t <= m.extent(ranges[j]); ++t)
          if (m.extent(ranges[j]) % t == 0)
            consider({{{ranges[j], t}, {ranges[i], s}}, s * t, 1, 0}, vectors, best);
    }
  }
  return best;
}

// Bytes of the vector factor's panel, and how many elements are copied over the whole kernel by one part; 0
// bytes: not possible.
struct PanelSize {
  double bytes = 0, copied = 0;
  std::int64_t steps = 1;
  double passes = 1;  // times that each output is stored, or read and stored
};
PanelSize panel_size(const Model& m, int factor, std::size_t lane, std::int64_t width, Panel panel) {
  double reduced = 1, other = 1;
  std::size_t first_reduce = m.facts.ranges.size();
  Node f = m.facts.factors[factor];
  for (std::size_t r = 0; r < m.facts.ranges.size(); ++r) {
    if (m.reduces(r) && first_reduce == m.facts.ranges.size()) first_reduce = r;
    if (!m.facts.depends(f, r) || r == lane) continue;
    (m.is_output[r] ? other : reduced) *= static_cast<double>(m.extent(r));
  }
  auto e = static_cast<double>(m.extent(lane));
  double padded = std::ceil(e / static_cast<double>(width)) * static_cast<double>(width);
  int bytes = m.facts.reduce.dtype().bytes();
  PanelSize size;
  size.copied = reduced * other * padded;
  switch (panel) {
    case Panel::None: break;
    case Panel::Whole: size.bytes = size.copied * bytes; break;
    case Panel::Block: size.bytes = reduced * static_cast<double>(width) * bytes; break;
    case Panel::Steps: {
      // A factor that other output ranges move would need a panel for each of their steps.
      if (other != 1 || m.facts.reduces != 1 || !m.facts.sums_in_output ||
          !m.facts.depends(f, first_reduce) || !m.usable(first_reduce))
        return {};
      std::int64_t extent = m.extent(first_reduce);
      double one = reduced / static_cast<double>(extent) * padded * bytes;
      while (size.steps * 2 <= 16 && extent % (size.steps * 2) == 0 &&
             one * static_cast<double>(size.steps) * 2 <= static_cast<double>(m.target.l2) / 4)
        size.steps *= 2;
      size.bytes = one * static_cast<double>(size.steps);
      if (size.steps >= extent) return {};
      size.passes = 2.0 * static_cast<double>(extent / size.steps);
      break;
    }
  }
  return size;
}

void price_output_lanes(const Model& m, std::optional<ProductTile>& best) {
  for (int factor = 0; factor < 2; ++factor) {
    Node f = m.facts.factors[factor], g = m.facts.factors[1 - factor];
    for (std::size_t lane = 0; lane < m.facts.ranges.size(); ++lane) {
      if (!m.only[factor][lane] || !m.usable(lane)) continue;
      bool side_by_side = m.contiguous(f, lane), stores_along = m.contiguous(Node(), lane);
      for (std::int64_t vectors = 1; vectors <= 4; ++vectors) {
        std::int64_t width = vectors * m.lanes, extent = m.extent(lane);
        if (vectors > 1 && (vectors - 1) * m.lanes >= extent) break;
        Rows rows = choose_rows(m, 1 - factor, vectors);
        auto r = static_cast<double>(rows.count), v = static_cast<double>(vectors);
        double used = share_used(extent, width) * rows.used;
        bool even = extent % width == 0;
        for (Panel panel : {Panel::None, Panel::Whole, Panel::Block, Panel::Steps}) {
          PanelSize size = panel_size(m, factor, lane, width, panel);
          bool staged = panel != Panel::None;
          if (!staged && !side_by_side) continue;  // lanes that lie apart are no vectors
          if (staged && (size.bytes == 0 || size.bytes > static_cast<double>(m.target.l2) / 2)) continue;
          double vector_load = staged || (even && !m.gated(f)) ? kLoad : kMaskedLoad;
          // Reading a wide matrix down its columns touches a page a row; a panel does not.
          if (!staged && m.extent(lane) > 4 * width) vector_load += 0.25;
          double inner = (1 + (vector_load * v + (m.gated(g) ? kMaskedLoad : kLoad) * r) / (v * r)) *
                         std::max(1.0, kEnoughInFlight / (v * r));
          double vector_products = m.products / static_cast<double>(m.lanes);
          double store = m.outputs * size.passes *
                         (stores_along ? kStoreElement / static_cast<double>(m.lanes) : kStoreElement);
          double parts = panel == Panel::Block && extent > width ? 1 : kPackers;
          double copy = staged ? size.copied * kCopyElement * parts : 0;
          double cost = inner / used + (store + copy) / vector_products;
          if (best && best->cost <= cost) continue;
          best = ProductTile{lane, width, rows.ranges, false, factor, panel, size.steps, cost};
        }
      }
    }
  }
}

// Both factors contiguous along one reduce range: lanes along it, a square tile of accumulators, lanes
// combined at the end.
void price_reduce_lanes(const Model& m, std::optional<ProductTile>& best) {
  for (std::size_t lane = 0; lane < m.facts.ranges.size(); ++lane) {
    if (!m.reduces(lane) || !m.usable(lane) || m.facts.ranges[lane].carries_tuple) continue;
    if (!m.contiguous(m.facts.factors[0], lane) || !m.contiguous(m.facts.factors[1], lane)) continue;
    std::int64_t extent = m.extent(lane);
    if (extent < m.lanes / 2) continue;
    std::int64_t power = 1;
    while (power < m.lanes && extent % (power * 2) == 0) power *= 2;
    for (std::int64_t width : {m.lanes, power}) {
      if (width < 2) continue;
      bool even = extent % width == 0;
      ProductTile tile{lane, width, {}, true, 0, Panel::None, 1, 0};
      double a = 1, b = 1;
      for (int factor = 0; factor < 2; ++factor) {
        std::int64_t taken = 0, size = 1;
        for (std::size_t r = 0; r < m.facts.ranges.size(); ++r) {
          if (!m.only[factor][r] || !m.usable(r)) continue;
          for (std::int64_t s = m.target.vector_registers >= 32 ? 4 : 3; s >= 2; --s)
            if ((m.extent(r) % s == 0 || (m.may_overrun(r) && m.extent(r) > 16)) && s > size) {
              size = s, taken = static_cast<std::int64_t>(r) + 1;
              break;
            }
        }
        if (taken != 0) tile.rows.emplace_back(static_cast<std::size_t>(taken - 1), size);
        (factor == 0 ? a : b) = static_cast<double>(size);
      }
      double load =
          even && !m.gated(m.facts.factors[0]) && !m.gated(m.facts.factors[1]) ? kLoad : kMaskedLoad;
      // A small tile takes several vectors a step, each with accumulators of its own.
      double in_flight = a * b;
      while (tile.width < 4 * width && extent % (tile.width * 2) == 0 && in_flight * 2 <= 2 * kEnoughInFlight)
        tile.width *= 2, in_flight *= 2;
      double inner = (1 + load * (a + b) / (a * b)) * std::max(1.0, kEnoughInFlight / in_flight);
      double used = share_used(extent, width) * static_cast<double>(width) / static_cast<double>(m.lanes);
      double cost = inner / used + m.outputs * kCombineLanes / (m.products / static_cast<double>(m.lanes));
      if (best && best->cost <= cost) continue;
      tile.cost = cost;
      best = tile;
    }
  }
}

}  // namespace

std::optional<ProductTile> choose_product_tile(const KernelFacts& facts, const Target& target) {
  if (!facts.factors[0] || target.vector_bytes == 0) return std::nullopt;
  Model m{facts, target, 1, 1, 1, 1, {}, {}, {}};
  m.lanes = std::max(target.vector_bytes / facts.reduce.dtype().bytes(), 1);
  m.budget = target.vector_registers >= 32 ? 28 : std::max(target.vector_registers - 4, 4);
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
  return best;
}

}  // namespace lathe
