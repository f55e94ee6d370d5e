// What a launch has to know about the matrices that bulk copies take boxes of. A kernel gets a description of
// each matrix as an argument behind all others, which the driver makes of an address and the numbers below.
// They stand in a table beside the kernel, so that a compiled unit says itself what its kernels need:
// <kernel>_maps, the number of rows first.
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
