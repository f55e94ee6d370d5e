#include "tensor/radix_sort.h"

#include <algorithm>
#include <bit>

#include "tensor/impl.h"
#include "tensor/walks.h"

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

// The digits of a pass as groups of walks, and where each element of a walk goes.
Tensor places_by(const Tensor& digit, std::int64_t walks, std::int64_t digits) {
  const std::int64_t rows = digit.size(0), n = digit.size(1), steps = n / walks;
  Tensor index = digit.reshape({rows * walks, steps});
  Tensor one = Tensor::ones({1, 1}, {.dtype = dtypes::int32, .device = digit.device()}).expand(index.shape());
  Tensor counts = scatter_in_order(Op::Add, one, index, digits);
  // Lower digits stand before, and of one digit what an earlier walk has.
  Tensor by_digit = counts.reshape({rows, walks, digits}).permute({0, 2, 1}).reshape({rows, digits * walks});
  Tensor start = (scan_in_order(Op::Add, by_digit, 1, 0) - by_digit)
                     .reshape({rows, digits, walks})
                     .permute({0, 2, 1})
                     .reshape({rows * walks, digits})
                     .contiguous();
  Tensor earlier = scan_in_groups(Op::Add, one, 1, index, digits) - 1;
  return (take_in_rows(start, index) + earlier).reshape({rows, n});
}

}  // namespace

SortedRows sort_by_digits(const Tensor& keys) {
  const std::int64_t rows = keys.size(0), n = keys.size(1);
  const Node bounds = node_of(keys);
  const bool wide = keys.dtype().itemsize() > 4;
  const DataType word = dtypes::int64;
  // From the least key on, as unsigned numbers.
  const auto least = static_cast<std::uint64_t>(bounds.lo());
  const auto span = static_cast<std::uint64_t>(bounds.hi()) - least;
  const int key_bits = static_cast<int>(std::bit_width(span));
  const bool packed = key_bits <= 64 - kOrderBits;
  const Digits digits = digits_for(key_bits, n);
  const std::int64_t walks = walks_for(static_cast<double>(rows), n), size = (n + walks - 1) / walks * walks;

  Tensor low = constant(Number(bounds.lo()), word, keys);
  Tensor from = keys.cast(word) - low;
  // Padding is as great as a key can be and stands behind all of them.
  Tensor key = from.pad({{0, 0}, {0, size - n}}, Number(static_cast<std::int64_t>(span)));
  Tensor order = iota_along(size, 1, 2, word, keys.device()).expand(key.shape());
  if (packed) key = (key << kOrderBits) | order;
  for (int pass = 0; pass < digits.passes; ++pass) {
    const int shift = pass * digits.bits, bits = std::min(digits.bits, std::max(key_bits - shift, 1));
    const std::int64_t count = std::int64_t{1} << bits;
    Tensor digit = ((key >> (shift + (packed ? kOrderBits : 0))) & (count - 1)).cast(dtypes::int32);
    Tensor place = places_by(digit, walks, count);
    if (!packed) {
      place = place.contiguous();
      order = scatter_in_order(Op::Add, order, place, size);
    }
    key = scatter_in_order(Op::Add, key, place, size);
  }
  const Shape out{Size(rows), Size(n)};
  key = key.shrink_to(out);
  if (packed) {
    const std::int64_t part = (std::int64_t{1} << kOrderBits) - 1;
    order = key & part;
    key = (key >> kOrderBits) & part;
  }
  return {(key + low).cast(wide ? dtypes::int64 : keys.dtype()), order.shrink_to(out).cast(dtypes::int32)};
}

}  // namespace lathe
