// Explicit vectors for the steps that take most of REF's time: loops over lanes that the compiler does not
// vectorize because planes might overlap. A plane is accessed in whole vectors, so its length is padded
// (padded_lanes).
#pragma once

#include <cstdint>
#include <cstring>

#include "reference/array.h"

namespace lathe::reference {

inline constexpr int kVectorLanes = 2;  // what every machine has
using Lanes = double __attribute__((vector_size(kVectorLanes * sizeof(double))));
using LaneMask = std::int64_t __attribute__((vector_size(kVectorLanes * sizeof(double))));

constexpr std::size_t padded_lanes(std::size_t n) {
  return (n + kVectorLanes - 1) / kVectorLanes * kVectorLanes;
}

inline Lanes lanes_at(const double* plane) {
  Lanes v;
  std::memcpy(&v, plane, sizeof v);
  return v;
}
inline Lanes lanes_at(const Cell* plane) {
  Lanes v;
  std::memcpy(&v, plane, sizeof v);
  return v;
}
inline void put_lanes(double* plane, Lanes v) { std::memcpy(plane, &v, sizeof v); }
inline void put_lanes(Cell* plane, Lanes v) { std::memcpy(plane, &v, sizeof v); }
inline void add_lanes(double* plane, Lanes v) { put_lanes(plane, lanes_at(plane) + v); }

inline LaneMask bits_of(Lanes v) { return reinterpret_cast<LaneMask>(v); }
// v where the mask is set, else 0.
inline Lanes where(LaneMask mask, Lanes v) { return reinterpret_cast<Lanes>(bits_of(v) & mask); }
inline Lanes size_of(Lanes v) { return reinterpret_cast<Lanes>(bits_of(v) & INT64_MAX); }

inline bool any(LaneMask mask) {
  std::int64_t all = 0;
  for (int k = 0; k < kVectorLanes; ++k) all |= mask[k];
  return all != 0;
}

}  // namespace lathe::reference
