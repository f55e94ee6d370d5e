#include "schedule/cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/shape.h"

namespace lathe {
namespace {

// The cost of writing an element and reading it back, relative to one arithmetic operation on registers: in a
// cache, and in memory. The size from which data counts as in memory is the same on every machine, so that
// schedules are the same, too.
constexpr double kStoreInCache = 12, kStoreInMemory = 32, kLargeBytes = 1 << 20;
// Repeated work may be this share of a kernel's other work.
constexpr double kSmallShare = 0.1;
constexpr float kLoad = 4;
// The cost of repeating a step of a reduce: its arithmetic and its reads, mostly from caches; also, a kernel
// with two reduces fits a tile less well than a kernel with one.
constexpr double kReduceStep = 3;
constexpr float kTranscendental = 12;
constexpr float kDivide = 6;
constexpr float kCostCap = 1e6f;
// A row is read again by every reduce over it and by their users: that is cheap while it is in a cache.
constexpr double kRowBytes = 1 << 20;
// The cost of writing an element to kernel-local memory and reading it back from L1, including another loop;
// and the limit of such memory.
constexpr double kStage = 8, kPanelBytes = 1 << 17;
// A kernel heavier than this is cut; the weight of a reduce accounts for its loop and its options.
constexpr double kLongKernel = 384, kReduceWeight = 16;
// A kernel with fewer outputs than this, over more inputs than that, is too serial: see reduce_parts.
constexpr std::int64_t kFewOutputs = 64, kManyInputs = 1 << 16;

// A lossless widening cast: it is done while reading, and reading the narrow number is cheaper.
bool is_widening(Node n) { return n.is(Op::Cast) && widens(n.arg(0).dtype(), n.dtype()); }

float weight(Node n) {
  if (is_widening(n)) return 0;
  switch (n.op()) {
    case Op::Exp2:
    case Op::Log2:
    case Op::Sin:
    case Op::Cos: return kTranscendental;
    case Op::Div:
    case Op::Recip:
    case Op::Sqrt:
    case Op::FloorDiv:
    case Op::FloorMod:
    case Op::TruncDiv:
    case Op::TruncMod: return kDivide;
    default: return is_elementwise(n.op()) ? 1 : 0;
  }
}

// An expanded value costs at most a load per use: if it costs more, it pays to store it below the expand,
// where it has fewer elements, and never to store a value above.
ElementCost below_expand(const ElementCost& cost) {
  return cost.operations + kLoad * cost.loads > kLoad ? ElementCost{.operations = 0, .loads = 1} : cost;
}

bool in_memory(Node n) {
  return n.is(Op::Buffer) || n.is(Op::After) || n.is(Op::Reduce) || n.is(Op::RaggedReduce) ||
         is_sequential(n) || n.is(Op::Copy) || n.is(Op::Contiguous);
}

// Writing the value once and reading it back.
double storing(Node node, double elements, bool invariant) {
  const bool large = !invariant && elements * node.dtype().bytes() > kLargeBytes;
  return elements * (large ? kStoreInMemory : kStoreInCache);
}
// The cost of computing an element again in a kernel. A value made only of positions (a causal mask) may cost
// less than reading it back.
double computing_again(const ElementCost& cost) {
  return std::max(0.f, cost.operations + kLoad * (cost.loads - 1));
}

}  // namespace

NodeMap<ElementCost> element_costs(std::span<const Node> order, const NodeMap<int>& uses, bool invariant) {
  NodeMap<ElementCost> costs;
  costs.reserve(order.size());
  // The cost of a node to its users.
  auto as_operand = [&](Node n) {
    const ElementCost& c = *costs.find(n);
    const int* count = uses.find(n);
    if (count == nullptr || *count < 2 || !is_elementwise(n.op()) || n.rank() == 0) return c;
    const auto elements = static_cast<double>(numel_max(n));
    // A sum of many small values is expensive because of its loads, and better stored at every step: reading
    // all of them again would delay the start of each later kernel.
    const bool large = !invariant && elements * n.dtype().bytes() > kLargeBytes;
    const double again = large ? computing_again(c) : c.operations;
    return again * elements > storing(n, elements, invariant) ? ElementCost{.operations = 0, .loads = 1} : c;
  };
  for (Node n : order) {
    ElementCost c;
    if (in_memory(n))
      c.loads = 1;
    else {
      c.operations = weight(n);
      std::size_t operands = is_movement(n.op()) ? std::min<std::size_t>(1, n.arg_count()) : n.arg_count();
      for (std::size_t i = 0; i < operands; ++i) {
        const bool grows = n.is(Op::Expand) && n.shape_node() != n.arg(0).shape_node();
        const ElementCost operand = as_operand(n.arg(i)), a = grows ? below_expand(operand) : operand;
        c.operations = std::min(kCostCap, c.operations + a.operations);
        c.loads = std::min(kCostCap, c.loads + a.loads);
      }
    }
    costs.try_emplace(n, c);
  }
  return costs;
}

double kernel_weight(Node node) {
  if (node.is(Op::Reduce) || node.is(Op::RaggedReduce)) return kReduceWeight;
  const bool reduces_angle = node.is(Op::Sin) || node.is(Op::Cos);  // which takes as many instructions again
  return weight(node) * (reduces_angle ? 2 : 1);
}

bool is_long_kernel(double weight) { return weight > kLongKernel; }

bool worth_cutting(const ElementCost& cost) { return cost.operations + kLoad * cost.loads > kStoreInMemory; }

bool is_product_sum(Node node) {
  constexpr std::int64_t kLongReduce = 16;
  if (!node.is(Op::Reduce) || static_cast<Op>(node.ints()[0]) != Op::Add) return false;
  Node x = node.arg(0);
  if (numel_max(x) < kLongReduce * std::max<std::int64_t>(numel_max(node), 1)) return false;
  while (is_movement(x.op()) || x.is(Op::Cast)) x = x.arg(0);
  if (!x.is(Op::Mul)) return false;
  auto repeats = [](Node operand) {
    for (; is_movement(operand.op()) || operand.is(Op::Cast); operand = operand.arg(0))
      if (operand.is(Op::Expand) && operand.shape_node() != operand.arg(0).shape_node()) return true;
    return false;
  };
  return repeats(x.arg(0)) && repeats(x.arg(1));
}

bool worth_storing(Node node, const ElementCost& cost, const Usage& usage) {
  const double store = storing(node, usage.elements, usage.invariant);
  double extra = usage.evaluations - usage.elements;
  if (node.is(Op::Reduce) || node.is(Op::RaggedReduce)) {
    // Inside another reduce's loop it would only have the parallelism of that reduce's result.
    if (usage.in_foreign_loop) return true;
    if (usage.beside_product) return true;
    bool serial = !usage.invariant && usage.kernel_outputs < kFewOutputs &&
                  usage.evaluations * usage.reduce_extent > kManyInputs;
    if (usage.joins && serial) return true;
    return extra * usage.reduce_extent * (usage.joins ? 1 : kReduceStep) > store;
  }
  // The value before widening is smaller to write and to read.
  if (is_widening(node)) return false;
  return extra * computing_again(cost) > std::max(store, kSmallShare * usage.kernel_work);
}

bool worth_a_row(const RowUsage& usage) {
  // The kernel that computes the row also runs the loops inside.

  const double work = std::max(usage.evaluations * usage.reduce_extent, usage.turns);
  if (!usage.invariant && usage.parallel_steps < kFewOutputs && work > kManyInputs) return false;
  // Each element of a strided row loads a whole cache line, so it is better to read the row once per kernel.
  if (usage.row_bytes > kRowBytes || !usage.side_by_side) return false;
  double extra = usage.evaluations - usage.elements;
  return extra * usage.reduce_extent * kReduceStep <= usage.elements * kStoreInCache;
}

bool worth_staging(const ElementCost& cost, double evaluations, double elements, double panel_bytes) {
  double again = cost.operations + kLoad * std::max(0.f, cost.loads - 1);
  return panel_bytes <= kPanelBytes && (evaluations - elements) * again > kStage * elements;
}

std::int64_t reduce_parts(std::int64_t outputs, std::int64_t inputs, std::int64_t extent) {
  constexpr std::int64_t kMaxParts = 256, kMinParts = 8;
  if (outputs >= kFewOutputs || inputs < kManyInputs || extent < 2 * kMinParts) return 0;
  for (std::int64_t p = std::min(kMaxParts, extent / 2); p >= kMinParts; --p)
    if (extent % p == 0) return p;
  return 0;
}

std::int64_t column_parts(std::int64_t outputs, double input_bytes, std::int64_t extent) {
  // The input exceeds the caches, there are enough columns to read a row sequentially, and enough rows that
  // the parts are small in comparison.
  constexpr double kLargeInput = 1 << 25;
  constexpr std::int64_t kShortestRow = 256, kParts = 32, kRowsPerPart = 32;
  if (outputs < kShortestRow || input_bytes < kLargeInput) return 0;
  for (std::int64_t p = kParts; p >= kParts / 2; --p)
    if (extent % p == 0 && extent / p >= kRowsPerPart) return p;
  return 0;
}

std::int64_t serial_parts(double others, std::int64_t steps) {
  constexpr double kEnough = 16;
  constexpr std::int64_t kShort = 1 << 14;
  std::int64_t parts = 1;
  while (others * static_cast<double>(parts) < kEnough && steps / (2 * parts) >= kShort) parts *= 2;
  return parts;
}

std::int64_t scan_pieces(double others, std::int64_t steps) {
  // A long running sum of floats loses digits and uses one thread, so it is cut into pieces.
  constexpr std::int64_t kLong = 1 << 16, kPiece = 1 << 14;
  const std::int64_t pieces = serial_parts(others, steps);
  return steps >= kLong ? std::max(pieces, steps / kPiece) : pieces;
}

namespace {

// Comparing costs a step per row, value and element of the width. Sorting costs some hundred steps per value,
// a search per row, and the start of a dozen kernels, each worth kKernel steps.
bool worth_sorting(const RowCounts& c) {
  constexpr double kKernel = 1 << 14, kSortStep = 6;
  const double depth = std::log2(c.values + 2);
  const double compare = c.batch * c.rows * c.values * c.width;
  const double sort =
      c.batch * (c.values * kSortStep * depth * depth + c.rows * kSortStep * depth + c.rows * c.width) +
      (depth + 4) * kKernel;
  return sort < compare;
}

// Wide rows that together exceed a cache: with lists each row is written once, which saves more than sorting
// costs.
bool written_once(const RowCounts& c) {
  constexpr double kWide = 32, kLarge = 1 << 21;
  return c.known && c.width >= kWide && c.rows * c.width >= kLarge;
}

// Lists number the values and the rows of the whole batch in 32 bits.
bool fits_lists(const RowCounts& c) {
  constexpr double kMost = std::numeric_limits<std::int32_t>::max();
  return c.known && c.batch * c.values <= kMost && c.batch * (c.rows + 1) <= kMost;
}

}  // namespace

RowWay row_way(const RowCounts& counts, bool fast_threads) {
  if (fast_threads && !written_once(counts)) return RowWay::Serial;
  return fits_lists(counts) && worth_sorting(counts) ? RowWay::Lists : RowWay::Compare;
}

std::int64_t scatter_parts(const RowCounts& counts) {
  constexpr double kStepsPerRow = 4;
  if (!counts.known) return 1;
  std::int64_t parts = serial_parts(counts.batch, static_cast<std::int64_t>(counts.values));
  while (parts > 1 && counts.values < kStepsPerRow * counts.rows * static_cast<double>(parts)) parts /= 2;
  return parts;
}

std::int64_t sort_block(std::int64_t n, std::int64_t keep) {
  std::int64_t block = 1;
  while (block * block * keep < n) block *= 2;
  return block;
}

SortWay sort_way(std::int64_t n, std::int64_t keep, bool fast_threads) {
  constexpr std::int64_t kLong = 1024, kLess = 4, kShort = 128;
  if (n >= kLong && keep > 0) {
    const std::int64_t block = sort_block(n, keep);
    if ((n / block + block * keep) * kLess <= n) return SortWay::Blocks;
  }
  return fast_threads && n > kShort && keep * 4 > n ? SortWay::Digits : SortWay::Merge;
}

bool worth_joining(const Joining& j) {
  // More streams than this at once and the hardware no longer reads ahead for all of them; more accumulators
  // and they leave the registers.
  constexpr int kMostBuffers = 24, kMostReduces = 4;
  // Starting a kernel costs as much as moving this many bytes; of a larger one a fair share must be saved.
  constexpr double kStart = 1 << 14, kShare = 0.2;
  // A step that runs much earlier than it has to keeps its result in memory for longer: only a small one.
  constexpr int kNear = 16;
  constexpr double kSmallResult = 0.125;
  const int reduces = j.reduces_before + j.reduces_added;
  if (j.buffers > kMostBuffers || reduces > kMostReduces || is_long_kernel(j.weight)) return false;
  if (j.apart > kNear && j.written > kSmallResult * j.saved && j.written > kStart) return false;
  const bool small = j.moved <= kStart;
  if (!j.shares && !j.follows) return small && reduces == 0;
  if (j.reduces_added > 0 && j.reduces_before > 0) {
    // One pass over the same elements, never one loop after the other.
    if (!j.same_loops || !j.shares || j.inside_reduce) return false;
  } else if (reduces > 0 && !j.follows) {
    return false;
  }
  return j.saved >= kShare * j.moved || small;
}

}  // namespace lathe
