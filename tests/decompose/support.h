// Shared by the tests of decompositions: an op decomposed on its own, and errors in units of the last place.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "codegen/decompose/decompose.h"
#include "decompose/block_evaluator.h"
#include "ir/build.h"

namespace lathe::testing {

// A target that lacks everything it may lack.
inline Target bare_target(bool fma, std::vector<Scalar> converted = {}) {
  Target t;
  t.name = "bare";
  t.fma = fma;
  t.emulated = {Scalar::Float16, Scalar::BFloat16,    Scalar::Fp8e4m3,
                Scalar::Fp8e5m2, Scalar::Fp8e4m3fnuz, Scalar::Fp8e5m2fnuz};
  t.converted = std::move(converted);
  return t;
}

inline Node leaf(DType dtype, std::int64_t slot = 0) { return load(param(dtype, slot, 16), index_const(0)); }

// Evaluates `build(leaves)` decomposed for `target` on rows of inputs given as raw bits.
template <class Build>
Block evaluate_decomposed(std::span<const DType> dtypes, const Target& target, std::span<const Block> inputs,
                          Build build) {
  Scope scope;
  std::vector<Node> leaves;
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    leaves.push_back(leaf(dtypes[i], static_cast<std::int64_t>(i)));
  BlockEvaluator evaluator(decompose(build(leaves), target), leaves);
  return evaluator.run(inputs);
}

// The distance of `got` from the exact value, in units of the last place of a format with `mantissa` stored
// bits and smallest normal exponent `low`. Equal infinities and NaN beside NaN are 0; anything else not
// finite is infinite.
inline double ulps(double got, long double exact, int mantissa, int low, int high) {
  if (std::isnan(exact) || std::isnan(got)) return std::isnan(exact) && std::isnan(got) ? 0 : INFINITY;
  // Above the largest number the next one would be 2^high: infinity is as good an answer as that.
  long double shown =
      std::isinf(got) ? std::copysign(std::ldexp(1.0L, high), static_cast<long double>(got)) : got;
  if (std::isinf(exact)) return std::isinf(got) && (got > 0) == (exact > 0) ? 0 : INFINITY;
  int e = exact == 0 ? low : std::max(std::ilogb(exact), low);
  e = std::min(e, high - 1);
  if (std::isinf(got) && std::fabs(exact) > std::fabs(shown)) return 0;
  return static_cast<double>(std::fabs(shown - exact) / std::ldexp(1.0L, e - mantissa));
}
inline double float_ulps(float got, double exact) { return ulps(got, exact, 23, -126, 128); }
inline double double_ulps(double got, long double exact) { return ulps(got, exact, 52, -1022, 1024); }

}  // namespace lathe::testing
