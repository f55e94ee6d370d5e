#include "schedule/radix_sort.h"

#include <algorithm>
#include <bit>

#include "schedule/cost.h"
#include "schedule/expand_scans.h"
#include "schedule/memory_view.h"

namespace lathe {
namespace {

constexpr int kOrderBits = 32;  // of where an element stood, below a key that leaves room for it

// How the bits of the keys are cut into digits. A table of counts is set and summed for each, so few elements
// want short ones.
struct Digits {
  int bits, passes;
};
Digits digits_for(int key_bits, std::int64_t n) {
  constexpr std::int64_t kLong = 1 << 13;
  const int most = n >= kLong ? 11 : 8, passes = std::max(1, (key_bits + most - 1) / most);
  return {(key_bits + passes - 1) / passes, passes};
}

// The output position of every element in a pass. Each row is cut into `serial` parts of equal length.
GraphValue places_by(const GraphValue& digit, std::int64_t serial, std::int64_t digits) {
  const Node rows = digit.size(0), n = digit.size(1), lines = rows * index_const(serial),
             kinds = index_const(digits), parts = index_const(serial);
  GraphValue index = digit.reshape({lines, index_const(n.const_int() / serial)});
  GraphValue one = filled(int_const(dtypes::Int32, 1), index.node().shape());
  GraphValue counts = scatter(Op::Add, one, index, kinds);
  // Elements with lower digits come first, then those with the same digit in earlier parts.
  GraphValue by_digit =
      counts.reshape({rows, parts, kinds}).permute({0, 2, 1}).reshape({rows, index_const(digits * serial)});
  GraphValue start = (GraphValue(scan_in_pieces(Op::Add, by_digit, 1)) - by_digit)
                         .reshape({rows, kinds, parts})
                         .permute({0, 2, 1})
                         .reshape({lines, kinds})
                         .stored();
  GraphValue earlier = GraphValue(scan_by(Op::Add, one, 1, index, kinds)) - 1;
  return (take_in_rows(start, index) + earlier).reshape({rows, n});
}

}  // namespace

SortedRows sort_by_digits(const GraphValue& keys) {
  const Node rows = keys.size(0), bounds = keys;
  const std::int64_t n = keys.size(1).const_int();
  const DType word = dtypes::Int64;
  // From the least key on, as unsigned numbers.
  const auto least = static_cast<std::uint64_t>(bounds.lo());
  const auto span = static_cast<std::uint64_t>(bounds.hi()) - least;
  const int key_bits = static_cast<int>(std::bit_width(span));
  const bool packed = key_bits <= 64 - kOrderBits;
  const Digits digits = digits_for(key_bits, n);
  const std::int64_t parts = serial_parts(static_cast<double>(unbound(rows).hi()), n),
                     size = (n + parts - 1) / parts * parts;

  GraphValue low = int_const(word, bounds.lo());
  GraphValue from = keys.cast(word) - low;
  // Padding has the greatest possible key and comes after all elements.
  GraphValue key = from.pad(1, index_const(0), index_const(size - n), {static_cast<std::int64_t>(span), 0});
  GraphValue order = counted_along(index_const(size), 1, 2, word).expand(key.sizes());
  if (packed) key = (key << kOrderBits) | order;
  for (int pass = 0; pass < digits.passes; ++pass) {
    const int shift = pass * digits.bits, bits = std::min(digits.bits, std::max(key_bits - shift, 1));
    const std::int64_t count = std::int64_t{1} << bits;
    GraphValue digit = ((key >> (shift + (packed ? kOrderBits : 0))) & (count - 1)).cast(dtypes::Int32);
    GraphValue place = places_by(digit, parts, count);
    if (!packed) {
      place = place.stored();
      order = scatter(Op::Add, order, place, index_const(size));
    }
    key = scatter(Op::Add, key, place, index_const(size));
  }
  key = key.shrink(1, index_const(0), index_const(n));
  if (packed) {
    const std::int64_t part = (std::int64_t{1} << kOrderBits) - 1;
    order = key & part;
    key = (key >> kOrderBits) & part;
  } else {
    order = order.shrink(1, index_const(0), index_const(n));
  }
  return {(key + low).cast(keys.dtype()), order.cast(dtypes::Int32)};
}

}  // namespace lathe
