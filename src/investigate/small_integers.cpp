#include "investigate/small_integers.h"

#include "base/hash.h"
#include "ir/build.h"
#include "ir/value.h"

namespace lathe::investigate {

reference::Array small_integers(Node buffer, std::uint64_t number) {
  reference::Array array(buffer.dtype(), buffer_size(buffer));
  const bool is_float = buffer.dtype().is_float();
  for (std::int64_t i = 0; i < array.size(); ++i) {
    const std::uint64_t bits = hash_combine(hash_mix(number + 1), static_cast<std::uint64_t>(i)) >> 7;
    const auto value = static_cast<std::int64_t>(is_float ? bits % 9 : bits % 2) - (is_float ? 4 : 0);
    array.set(i, convert(buffer.dtype(), is_float ? dtypes::Float64 : dtypes::Int64,
                         {value, static_cast<double>(value)}));
  }
  return array;
}

}  // namespace lathe::investigate
