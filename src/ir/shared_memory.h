// How the arrays that a group's threads share (Define of Space::Shared, and of Space::Barrier) lie in its
// shared memory: one after the other, swizzled ones first and then the others, each in the order a program
// lists them. Printers, the launch size and the verifier agree on it here.
//
// A swizzled array is rows of 128 bytes, and piece p (16 bytes) of row r lies in place p ^ r%8 of that row:
// eight threads that read the same piece of eight rows, or the eight pieces of a row, meet no bank twice. It
// is what units that read panels themselves expect. Indices name elements as if it were not so.
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
