#include "codegen/lower/transpose_stores.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "codegen/lower/relist.h"
#include "codegen/lower/transpose.h"
#include "ir/access.h"
#include "ir/build.h"
#include "rules/index_parts.h"

namespace lathe {
namespace {

// After a longer sum it does not show how its result is stored, and LLVM compiles a scatter in a fraction of
// the time.
constexpr double kShortSum = 256;

// A store of neighbours among the lanes of others.
struct Strided {
  Node store;
  IndexParts index;
};
using Tile = std::vector<Strided>;  // by the place of the first lane

Node base_of(Node store) { return base_memory(store.arg(0)); }

// A store of lanes a constant distance apart, with nothing that could keep it from storing all of them.
bool is_strided(Node n) {
  const bool gated = n.arg_count() > 3 && !n.arg(3).is_const_int(1);
  if (!n.is(Op::Store) || gated || access_of(n).past == 0) return false;
  const DType dtype = n.arg(2).dtype();
  if (dtype.is_bool() || dtype.lanes % 4 != 0) return false;
  const std::vector<std::int64_t> places = constant_lanes(index_parts(n.arg(1)).lanes);
  if (places.empty()) return false;
  const std::int64_t step = places[1] - places[0];
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i] - places[i - 1] != step) return false;
  return std::abs(step) >= 4;
}

// Whether the lanes of both are the same distances from places that differ by a constant, and no element is
// written by both: the order would matter.
bool fit_together(const Strided& x, const Strided& y) {
  if (base_of(x.store) != base_of(y.store) || x.index.scalar != y.index.scalar ||
      x.index.lanes != y.index.lanes || x.store.arg(2).dtype() != y.store.arg(2).dtype())
    return false;
  const std::vector<std::int64_t> places = constant_lanes(x.index.lanes);
  const std::int64_t step = places[1] - places[0], apart = y.index.constant - x.index.constant;
  return apart % step != 0 || std::abs(apart / step) >= static_cast<std::int64_t>(places.size());
}

// The strided stores from `at` on that are together; none where not all of them fit.
Tile tile_at(const std::vector<NodeRef>& code, std::size_t at) {
  Tile tile;
  for (; at < code.size() && is_strided(code[at]); ++at) {
    const Strided next{code[at], index_parts(code[at]->arg(1))};
    if (!std::all_of(tile.begin(), tile.end(), [&](const Strided& s) { return fit_together(s, next); }))
      break;
    tile.push_back(next);
  }
  std::stable_sort(tile.begin(), tile.end(),
                   [](const Strided& a, const Strided& b) { return a.index.constant < b.index.constant; });
  return tile;
}

void put_transposed(Relist& list, std::span<const Strided> stores) {
  std::vector<Node> values;
  for (const Strided& s : stores) values.push_back(list.named(s.store.arg(2)));
  const std::vector<Node> rows = transposed(list, values);
  const IndexParts& first = stores[0].index;
  const std::vector<std::int64_t> places = constant_lanes(first.lanes);
  const DType dtype = first.lanes.dtype().element();
  Node memory = list.named(stores[0].store.arg(0));
  const auto count = static_cast<std::int64_t>(stores.size());
  for (std::size_t lane = 0; lane < places.size(); ++lane) {
    const auto block = static_cast<std::int64_t>(lane) / count * count;
    Node part = shuffled(list, std::span(&rows[lane % rows.size()], 1), count,
                         [&](std::int64_t i) { return block + i; });
    Node index = int_const(dtype, first.constant + places[lane]);
    if (first.scalar) index = list.put(apply(Op::Add, list.named(first.scalar), index));
    list.put(intern(Op::Store, dtypes::Void, {memory, index, part}));
  }
}

// Four neighbours at a time, or two; what is left stays as it is.
void put_tile(Relist& list, const Tile& tile) {
  for (std::size_t i = 0; i < tile.size();) {
    std::size_t count = 1;
    while (count < 4 && i + count < tile.size() &&
           tile[i + count].index.constant == tile[i].index.constant + static_cast<std::int64_t>(count))
      ++count;
    count = count == 3 ? 2 : count;
    if (count == 1) {
      list.keep(tile[i].store);
    } else {
      put_transposed(list, {tile.data() + i, count});
      for (std::size_t j = 0; j < count; ++j) list.drop(tile[i + j].store);
    }
    i += count;
  }
}

double sum_steps(const Program& program) {
  double steps = 1;  // of all loops that are reduces
  for (Node n : program.code)
    if (n.is(Op::Range) && range_kind(n) == RangeKind::Reduce)
      steps *= static_cast<double>(std::max<std::int64_t>(n.arg(0).hi(), 1));
  return steps;
}

}  // namespace

Program transpose_stores(Program program, const Target& target) {
  if (!target.vectors || std::none_of(program.code.begin(), program.code.end(), is_strided)) return program;
  const bool short_sum = sum_steps(program) <= kShortSum;
  Relist list(std::move(program));
  const std::vector<NodeRef>& code = list.before();
  for (std::size_t at = 0; at < code.size(); ++at) {
    const bool begins = is_strided(code[at]) && (short_sum || !target.gathers(code[at]->arg(2).dtype()));
    const Tile tile = begins ? tile_at(code, at) : Tile{};
    if (tile.size() < 2) {
      list.keep(code[at]);
      continue;
    }
    put_tile(list, tile);
    at += tile.size() - 1;
  }
  return list.take();
}

}  // namespace lathe
