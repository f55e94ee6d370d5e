// How the arrays that a group's threads share (Define of Space::Shared) lie in its shared memory: one after
// the other, in the order a program lists them. Printers, the launch size and the verifier agree on it here.
#pragma once

#include <cstdint>

#include "ir/build.h"

namespace lathe {

// What an array takes: the next one begins where the widest access may.
inline std::int64_t shared_bytes_of(Node define) {
  constexpr std::int64_t kAligned = 16;
  const std::int64_t bytes = memory_size(define) * define.dtype().bytes() * define.dtype().lanes;
  return (bytes + kAligned - 1) / kAligned * kAligned;
}

}  // namespace lathe
