#include "codegen/choose/split_sum.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/small_vector.h"
#include "codegen/kernel/substitute.h"
#include "codegen/options/matrix_unit.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

// Outputs that a group computes in one go, steps that are too few to share, groups that are to be busy, and
// the most parts. Not the cores of this very chip: results would depend on them.
constexpr double kTile = 128 * 256, kFewSteps = 4096, kCores = 132;
constexpr std::int64_t kMostParts = 32;

struct Parts {
  Node range;
  std::int64_t count = 1;
};

// The parts with which cores idle least, as few of them as that takes.
Parts choose_parts(Node reduce, double outputs) {
  const double tiles = std::max(1.0, outputs / kTile);
  auto busy = [&](std::int64_t parts) {
    const double groups = tiles * static_cast<double>(parts);
    return groups / (kCores * std::ceil(groups / kCores));
  };
  Parts best;
  constexpr double kClearly = 1.1;
  for (std::int64_t count = 2; count <= kMostParts; ++count)
    for (Node r : closed_ranges(reduce))
      if (r.arg(0).const_int() % count == 0 && busy(count) > kClearly * busy(best.count)) best = {r, count};
  return best;
}

// Whether enough outputs share each factor, and the product reads nothing that the kernel writes.
bool is_matrix_product(Node kernel, const SmallProduct& product) {
  constexpr double kFewest = 64;
  double alone[2] = {1, 1};
  for (Node r : ranges_of(product.reduce)) {
    const bool x = depends_on(product.x, r), y = depends_on(product.y, r);
    if (x != y) alone[x ? 0 : 1] *= static_cast<double>(r.arg(0).const_int());
  }
  for (Node n : toposort(kernel))
    if (n.is(Op::Store))
      for (Node read : toposort(product.reduce))
        if (read == base_memory(n.arg(0))) return false;
  return std::min(alone[0], alone[1]) >= kFewest;
}

double product_of(std::span<const Node> ranges) {
  double n = 1;
  for (Node r : ranges) n *= static_cast<double>(r.arg(0).const_int());
  return n;
}

}  // namespace

std::optional<SplitSum> split_sum(Node kernel, const Compile& compile, Worth worth) {
  if (!compile.target.groups || compile.target.units.empty() || compile.invariant ||
      compile.rules.disables("split-products"))
    return std::nullopt;
  const std::optional<SmallProduct> product = small_product(kernel, compile.target);
  if (!product || product->reduce.dtype() != dtypes::Float32) return std::nullopt;
  const Node reduce = product->reduce;
  for (Node n : toposort(kernel))
    if ((n.is(Op::Range) && (!n.arg(0).is_const() || range_kind(n) == RangeKind::Loop)) || n.is(Op::Define) ||
        (n.is(Op::Reduce) && n != reduce))
      return std::nullopt;
  if (!is_matrix_product(kernel, *product)) return std::nullopt;
  Nodes outputs;
  for (Node r : ranges_of(reduce)) outputs.push_back(r);
  const double steps = product_of(closed_ranges(reduce));
  if (worth == Worth::Estimated && steps < kFewSteps) return std::nullopt;
  const Parts parts = choose_parts(reduce, product_of(outputs));
  if (parts.count < 2) return std::nullopt;

  SplitSum made;
  std::int64_t first_reduce = 0;
  for (Node n : toposort(kernel)) {
    if (n.is(Op::Param)) made.params = std::max(made.params, static_cast<int>(param_slot(n)) + 1);
    if (n.is(Op::Range)) first_reduce = std::max(first_reduce, range_id(n) + 1);
  }
  // The number of a part is before the outputs.
  std::int64_t id = 0;
  Node part = range(index_const(parts.count), id++, RangeKind::Global), at = part;
  NodeMap<Node> map;
  Nodes around{part}, within;
  for (Node r : outputs) {
    around.push_back(range(r.arg(0), id++, RangeKind::Global));
    map.try_emplace(r, around.back());
    at = at * r.arg(0) + around.back();
  }
  for (Node r : closed_ranges(reduce)) {
    const std::int64_t extent = r.arg(0).const_int() / (r == parts.range ? parts.count : 1);
    Node now = range(index_const(extent), id++, RangeKind::Reduce);
    within.push_back(now);
    map.try_emplace(r, r == parts.range ? part * index_const(extent) + now : now);
  }
  made.size = parts.count * static_cast<std::int64_t>(product_of(outputs));
  // The params of the product keep their slots but for the first, which is what the kernel stores.
  Node element = substitute_free(reduce.arg(0), map);
  Node memory = param(dtypes::Float32, 0, made.size);
  Node effect = end(store(memory, at, reduce_ranges(Op::Add, element, within)), around);
  made.parts = simplify(sink({&effect, 1}), compile.rules);

  Node number = range(index_const(parts.count), first_reduce, RangeKind::Reduce), from = number;
  for (Node r : outputs) from = from * r.arg(0) + r;
  Node sum = reduce_ranges(Op::Add, load(param(dtypes::Float32, made.params, made.size), from), {&number, 1});
  NodeMap<Node> whole;
  whole.try_emplace(reduce, sum);
  made.whole = simplify(substitute(kernel, whole), compile.rules);
  return made;
}

}  // namespace lathe
