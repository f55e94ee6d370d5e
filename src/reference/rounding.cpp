#include "reference/rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace lathe::reference {
namespace {

// Found by asking the dtype's own rounding, so that no fact about a format is written twice.
Rounding find_rounding(DType dtype) {
  Rounding out;
  double step = 1;
  for (out.precision = 1; round_to(dtype, 1 + step / 2) != 1; step /= 2) ++out.precision;
  out.unit = std::ldexp(1.0, -out.precision);
  double least = 1;
  while (round_to(dtype, least / 2) != 0) least /= 2;
  out.tiny = std::max(least / 2, std::numeric_limits<double>::denorm_min());  // of float64 half is none
  double top = 1;                                                             // the largest power of two
  while (std::isfinite(round_to(dtype, top * 2)) && std::isfinite(top * 2)) top *= 2;
  // Above the largest finite value there is half a step that still rounds down to it.
  double most = top;
  for (double part = top / 2; part >= top * 2 * out.unit; part /= 2)
    if (std::isfinite(round_to(dtype, most + part))) most += part;
  out.limit = dtype.bits() == 64 ? HUGE_VAL : most + top * out.unit;
  out.wide_unit = dtype.bits() < 32 ? std::ldexp(1.0, -24) : 0;
  return out;
}

constexpr double kErrors[] = {
#define LATHE_OP(name, args, result, domain, traits, unit, value, text, error, ...) error,
#include "ir/ops.def"
#undef LATHE_OP
};

}  // namespace

const Rounding& rounding_of(DType dtype) {
  constexpr int kScalars = 0
#define LATHE_DTYPE(...) +1
#include "ir/dtypes.def"
#undef LATHE_DTYPE
      ;
  static const auto* table = [] {
    auto* rows = new std::array<Rounding, kScalars>;
    for (int i = 0; i < kScalars; ++i)
      if (const DType d(static_cast<Scalar>(i)); d.is_float())
        (*rows)[static_cast<std::size_t>(i)] = find_rounding(d);
    return rows;
  }();
  if (!dtype.is_float()) throw InternalError("reference", "rounding to " + dtype.str());
  return (*table)[static_cast<std::size_t>(dtype.scalar)];
}

double error_of(Op op) { return is_scalar_op(op) ? kErrors[static_cast<std::size_t>(op)] : 0; }

}  // namespace lathe::reference
