#include "schedule/sort_rows.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "schedule/cost.h"
#include "schedule/radix_sort.h"

namespace lathe {
namespace {

// Blocks this long are sorted by counting: each key is compared with all of its block.
constexpr std::int64_t kBlock = 32;

GraphValue not_after(const GraphValue& a, const GraphValue& b) { return opposite(b < a); }

// One step of a binary search in [low, high): `right` says that the target is after the middle.
struct Bounds {
  GraphValue low, high;
  GraphValue middle() const { return (low + high) >> 1; }
  Bounds half(const GraphValue& right) const {
    GraphValue open = low < high, at = middle();
    return {(open & right).where(at + 1, low), (open & opposite(right)).where(at, high)};
  }
};
int halvings(std::int64_t n) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n))); }

// The greatest possible key, so that padding comes after all keys.

Element greatest(DType dtype) { return unit_of(Op::Min, dtype); }

// Where each place of a sorted block comes from. (blocks, n)
GraphValue block_order(const GraphValue& keys) {
  const Node n = keys.size(1);
  const GraphSizes wide{keys.size(0), n, n};
  // Spread before they are compared: a comparison that several blocks share would be stored.
  auto along = [&](std::size_t axis) { return counted_along(n, axis, 3, dtypes::Int32).expand(wide); };
  GraphValue mine = keys.with_axis(2), other = keys.with_axis(1), before = along(2) < along(1);
  GraphValue ahead = (other < mine) | (same(other, mine) & before);
  GraphValue rank = ahead.cast(dtypes::Int32).reduce(Op::Add, 2).without_axis(2).stored();
  GraphValue here = same(rank.with_axis(1), along(1));
  return here.where(along(2), int_const(dtypes::Int32, 0)).reduce(Op::Add, 2).without_axis(2);
}

// Where each of the first `keep` places of two merged runs comes from: keys are (pairs, 2 * run).
GraphValue merge_order(const GraphValue& keys, std::int64_t keep) {
  const std::int64_t run = keys.size(1).const_int() / 2;
  const GraphSizes out{keys.size(0), index_const(keep)};
  GraphValue place = counted_along(index_const(keep), 1, 2, dtypes::Int32).expand(out);
  // The first `place` elements are i of the first run and place - i of the second.
  Bounds i{greater_of(place - run, place.number(0)), lesser_of(place, place.number(run))};
  for (int step = halvings(run); step-- > 0;) {
    GraphValue at = i.middle();
    i = i.half(not_after(take_in_rows(keys, at), take_in_rows(keys, place - at + (run - 1))));
  }
  GraphValue first = i.low, second = place - first + run;
  GraphValue from_first = (first < run) & (opposite(second < 2 * run) |
                                           not_after(take_in_rows(keys, first), take_in_rows(keys, second)));
  return from_first.where(first, second);
}

// The blocks of a row with the least first elements hold all that is kept: an element of another block has
// `keep` before it. So few of the keys need be sorted.
SortedRows first_of_blocks(const GraphValue& keys, std::int64_t keep, bool fast_threads) {
  const Node rows = keys.size(0);
  const std::int64_t n = keys.size(1).const_int(), block = sort_block(n, keep),
                     blocks = (n + block - 1) / block;
  GraphValue wide = keys.pad(1, index_const(0), index_const(blocks * block - n), greatest(keys.dtype()));
  GraphValue least = wide.reshape({rows, index_const(blocks), index_const(block)})
                         .reduce(Op::Min, 2)
                         .without_axis(2)
                         .stored();
  // In their order in the row, so that equal keys keep theirs.
  GraphValue chosen = sort_rows(sort_rows(least, keep, fast_threads).order, keep, fast_threads).keys;
  GraphValue at = (chosen.with_axis(2) * block + counted_along(index_const(block), 2, 3, dtypes::Int32))
                      .reshape({rows, index_const(keep * block)});
  SortedRows sorted = sort_rows(take_in_rows(wide, at).stored(), keep, fast_threads);
  return {sorted.keys, take_in_rows(at, sorted.order)};
}

SortedRows merged_runs(const GraphValue& keys, std::int64_t keep) {
  const Node rows = keys.size(0);
  const std::int64_t n = keys.size(1).const_int(), block = std::min(n, kBlock);
  std::int64_t size = n;
  if (n > kBlock)
    for (size = kBlock; size < n;) size *= 2;
  const Node blocks = index_const(size / block), length = index_const(block);
  GraphValue wide = keys.pad(1, index_const(0), index_const(size - n), greatest(keys.dtype()))
                        .reshape({rows * blocks, length});
  GraphValue from = block_order(wide), start = counted_along(blocks, 1, 3, dtypes::Int32) * block;
  SortedRows now{take_in_rows(wide, from).stored(),
                 (from.reshape({rows, blocks, length}) + start).reshape(wide.sizes()).stored()};
  for (std::int64_t runs = size / block; runs > 1; runs /= 2) {
    const std::int64_t run = now.keys.size(1).const_int(),
                       kept = std::min(2 * run, std::max<std::int64_t>(keep, 1));
    const GraphSizes pairs{rows * index_const(runs / 2), index_const(2 * run)};
    GraphValue k = now.keys.reshape(pairs), o = now.order.reshape(pairs), merged = merge_order(k, kept);
    now = {take_in_rows(k, merged).stored(), take_in_rows(o, merged).stored()};
  }
  return now;
}

}  // namespace

SortedRows sort_rows(const GraphValue& keys, std::int64_t keep, bool fast_threads) {
  auto kept = [&](const SortedRows& all) -> SortedRows {
    return {all.keys.shrink(1, index_const(0), index_const(keep)),
            all.order.shrink(1, index_const(0), index_const(keep))};
  };
  switch (sort_way(keys.size(1).const_int(), keep, fast_threads)) {
    case SortWay::Blocks: return first_of_blocks(keys, keep, fast_threads);
    case SortWay::Digits: return kept(sort_by_digits(keys));
    case SortWay::Merge: break;
  }
  return kept(merged_runs(keys, keep));
}

GraphValue count_less(const GraphValue& keys, const GraphValue& queries) {
  const std::int64_t n = keys.size(1).const_int();
  const DType position = n <= std::numeric_limits<std::int32_t>::max() ? dtypes::Int32 : dtypes::Int64;
  GraphValue zero = filled(int_const(position, 0), queries.node().shape());
  Bounds b{zero, zero + n};
  for (int step = halvings(n); step-- > 0;) b = b.half(take_in_rows(keys, b.middle()) < queries);
  return b.low;
}

}  // namespace lathe
