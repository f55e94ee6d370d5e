// The layout of a group's arrays in shared memory (Define of Space::Shared and Space::Barrier): swizzled
// arrays first, then the others, each in program order. Printers, the launch size and the verifier use this
// layout.
//
// A swizzled array has rows of 128 bytes, and piece p (16 bytes) of row r is stored at position p ^ r%8 of
// the row, so that reading the same piece of eight rows, or the eight pieces of a row, has no bank conflicts.
// Units that read panels themselves expect this layout. Indices are those of the unswizzled array.
#pragma once

#include <cstdint>

#include "ir/build.h"

namespace lathe {

inline constexpr std::int64_t kSwizzleRow = 128, kSwizzlePiece = 16, kSwizzleRows = 8;

// What an array takes: the next one begins where the widest access may.
inline std::int64_t shared_bytes_of(Node define) {
  const std::int64_t aligned = shared_form(define).swizzled ? kSwizzleRow * kSwizzleRows : kSwizzlePiece;
  const std::int64_t bytes = memory_size(define) * define.dtype().bytes() * define.dtype().lanes;
  return (bytes + aligned - 1) / aligned * aligned;
}

}  // namespace lathe
