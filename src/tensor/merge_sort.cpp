#include "tensor/merge_sort.h"

#include <algorithm>
#include <bit>

#include "tensor/gather.h"
#include "tensor/impl.h"
#include "tensor/radix_sort.h"
#include "tensor/walks.h"

namespace lathe {
namespace {

// Blocks this long are sorted by counting: each key is compared with all of its block.
constexpr std::int64_t kBlock = 32;

Tensor not_after(const Tensor& a, const Tensor& b) { return (b < a).logical_not(); }

Tensor line(std::int64_t n, const Tensor& like) { return iota_along(n, 1, 2, dtypes::int32, like.device()); }

// One step of halving [low, high): `right` says that what is searched for lies behind the middle.
struct Bounds {
  Tensor low, high;
  Tensor middle() const { return (low + high) >> 1; }
  Bounds half(const Tensor& right) const {
    Tensor open = low < high, at = middle();
    return {(open & right).where(at + 1, low), (open & right.logical_not()).where(at, high)};
  }
};
int halvings(std::int64_t n) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n))); }

// Where each place of a sorted block comes from. (blocks, n)
Tensor block_order(const Tensor& keys) {
  const std::int64_t n = keys.size(1);
  const Shape wide{keys.size(0), Size(n), Size(n)};
  // Spread before they are compared: a comparison that several blocks share would be stored.
  auto along = [&](std::int64_t axis) {
    return iota_along(n, axis, 3, dtypes::int32, keys.device()).expand(wide);
  };
  Tensor mine = keys.unsqueeze(2), other = keys.unsqueeze(1), before = along(2) < along(1);
  Tensor rank = ((other < mine) | ((other == mine) & before)).cast(dtypes::int32).sum(2).contiguous();
  return (rank.unsqueeze(1) == along(1)).where(along(2), 0).sum(2).cast(dtypes::int32);
}

// Where each of the first `keep` places of two merged runs comes from: keys are (pairs, 2 * run).
Tensor merge_order(const Tensor& keys, std::int64_t keep) {
  const std::int64_t run = keys.size(1).value() / 2;
  Tensor place = line(keep, keys).expand({keys.size(0), Size(keep)});
  // The first `place` elements are i of the first run and place - i of the second.
  Bounds i{(place - run).maximum(0), place.minimum(run)};
  for (int step = halvings(run); step-- > 0;) {
    Tensor at = i.middle();
    i = i.half(not_after(take_in_rows(keys, at), take_in_rows(keys, place - at + (run - 1))));
  }
  Tensor first = i.low, second = place - first + run;
  Tensor from_first = (first < run) & ((second >= 2 * run) |
                                       not_after(take_in_rows(keys, first), take_in_rows(keys, second)));
  return from_first.where(first, second);
}

}  // namespace

Tensor take_in_rows(const Tensor& x, const Tensor& index) {
  return make_tensor(take(node_of(x), node_of(index), 1), x.device(), is_tracked(x));
}

namespace {

// The blocks of a row with the least first elements hold all that is kept: an element of another block has
// `keep` before it. So few of the keys need be sorted.
SortedRows first_of_blocks(const Tensor& keys, std::int64_t keep, std::int64_t block) {
  const std::int64_t rows = keys.size(0), n = keys.size(1), blocks = (n + block - 1) / block;
  Tensor wide = keys.pad({{0, 0}, {0, blocks * block - n}}, dtypes::max(keys.dtype()));
  Tensor least = wide.reshape({rows, blocks, block}).min(2).contiguous();
  // In their order in the row, so that equal keys keep theirs.
  Tensor chosen = sort_rows(sort_rows(least, keep).order, keep).keys;
  Tensor at = (chosen.unsqueeze(2) * block + iota_along(block, 2, 3, dtypes::int32, keys.device()))
                  .reshape({Size(rows), Size(keep * block)});
  SortedRows sorted = sort_rows(take_in_rows(wide, at).contiguous(), keep);
  return {sorted.keys, take_in_rows(at, sorted.order)};
}

// How long blocks are best, or 0 where sorting all keys is no more work.
std::int64_t block_for(std::int64_t n, std::int64_t keep) {
  constexpr std::int64_t kLong = 1024, kLess = 4;
  std::int64_t block = 1;
  while (block * block * keep < n) block *= 2;
  return n >= kLong && (n / block + block * keep) * kLess <= n ? block : 0;
}

}  // namespace

SortedRows sort_rows(const Tensor& keys, std::int64_t keep) {
  constexpr std::int64_t kShort = 128;
  const std::int64_t rows = keys.size(0), n = keys.size(1);
  if (const std::int64_t block = block_for(n, keep); keep > 0 && block > 0)
    return first_of_blocks(keys, keep, block);
  if (n > kShort && keep * 4 > n && walks_in_order(keys.device())) {
    SortedRows all = sort_by_digits(keys);
    const Shape out{Size(rows), Size(keep)};
    return {all.keys.shrink_to(out), all.order.shrink_to(out)};
  }
  std::int64_t size = n;
  if (n > kBlock)
    for (size = kBlock; size < n;) size *= 2;
  const std::int64_t block = std::min(n, kBlock);
  // Padding is as great as a key can be and stands behind all of them.
  Tensor wide = keys.pad({{0, 0}, {0, size - n}}, dtypes::max(keys.dtype()))
                    .reshape({Size(rows * (size / block)), Size(block)});
  Tensor from = block_order(wide);
  Tensor start = iota_along(size / block, 1, 3, dtypes::int32, keys.device()) * block;
  SortedRows now{take_in_rows(wide, from).contiguous(),
                 (from.reshape({rows, size / block, block}) + start).reshape(wide.shape()).contiguous()};
  for (std::int64_t runs = size / block; runs > 1; runs /= 2) {
    const std::int64_t run = now.keys.size(1), kept = std::min(2 * run, std::max<std::int64_t>(keep, 1));
    Shape pairs{Size(rows * (runs / 2)), Size(2 * run)};
    Tensor k = now.keys.reshape(pairs), o = now.order.reshape(pairs), merged = merge_order(k, kept);
    now = {take_in_rows(k, merged).contiguous(), take_in_rows(o, merged).contiguous()};
  }
  Shape out{Size(rows), Size(keep)};
  return {now.keys.shrink_to(out), now.order.shrink_to(out)};
}

Tensor count_less(const Tensor& keys, const Tensor& queries) {
  const std::int64_t n = keys.size(1);
  Tensor zero = Tensor::zeros(queries.shape(), {.dtype = position_dtype(n), .device = queries.device()});
  Bounds b{zero, zero + n};
  for (int step = halvings(n); step-- > 0;) b = b.half(take_in_rows(keys, b.middle()) < queries);
  return b.low;
}

Tensor sort_keys(const Tensor& x, bool descending) {
  const DataType d = x.dtype();
  Tensor key = x.detach();
  if (d.is_float()) {
    const bool wide = d == dtypes::float64;
    const DataType bits = wide ? dtypes::int64 : dtypes::int32;
    Tensor value = wide ? key : key.cast(dtypes::float32);
    Tensor plain = (value == 0).where(0.0, value).bitcast(bits);
    key = (plain < 0).where(plain ^ constant(dtypes::max(bits), bits, x), plain);
    key = value.isnan().where(constant(dtypes::max(bits), bits, x), key);
  } else if (d == dtypes::uint64) {
    key = key.bitcast(dtypes::int64) ^ constant(dtypes::min(dtypes::int64), dtypes::int64, x);
  } else {
    key = key.cast(d == dtypes::int64 || d == dtypes::uint32 ? dtypes::int64 : dtypes::int32);
  }
  return descending ? key ^ -1 : key;
}

}  // namespace lathe
