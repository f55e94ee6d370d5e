// Describes the matrices that bulk copies of a kernel read (tensor maps). The kernel gets a map per matrix as
// an additional last argument, which the driver makes from an address and the numbers below. The numbers are
// in a table in the compiled unit, next to the kernel: <kernel>_maps, starting with the number of rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::render {

inline constexpr std::string_view kBoxMaps = "_maps";
inline constexpr std::size_t kBoxMapBytes = 128;  // of such a description

struct BoxMap {
  std::int64_t argument;       // which buffer
  std::int64_t element;        // bytes
  std::int64_t columns, rows;  // of the matrix
  std::int64_t pitch;          // elements from row to row
  std::int64_t box_columns, box_rows;
};
inline constexpr std::size_t kBoxMapNumbers = sizeof(BoxMap) / sizeof(std::int64_t);

}  // namespace lathe::render
