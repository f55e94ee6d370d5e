// Changes the layout of a product's factors so that a matrix unit can read them as contiguous rows: images
// with contiguous pixels become images with a border and contiguous channels. A separate copy kernel stores
// each such factor again, if the product gains more than that costs. Rows of steps are padded with zeros to a
// multiple of the piece size, and the product includes these steps.
//
//   before   out[b, o, y, x] = sum i, ky, kx: W[o, i, ky, kx] * (inside ? X[b, i, y + ky - 1, x + kx - 1] :
//   0) after    X'[b, Y, X, i] = inside ? X[b, i, Y - 1, X - 1] : 0      W'[o, ky, kx, i] = W[o, i, ky, kx]
//            out[b, o, y, x] = sum i, ky, kx: W'[o, ky, kx, i] * X'[b, y + ky, x + kx, i]
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/node.h"
#include "pipeline/compile.h"

namespace lathe {

struct FactorCopy {
  NodeRef kernel;  // stores param 0, reads param 1
  int source = 0;  // the param of the product that is its param 1
  DType dtype;     // and how much it stores
  std::int64_t size = 0;
};
struct LaidOut {
  NodeRef kernel;  // reads copy i as its param params + i
  int params = 0;
  std::vector<FactorCopy> copies;
};

// Estimated: nothing where no copy pays; Always: wherever the unit can then be used, for tests.
enum class Worth : std::uint8_t { Estimated, Always };

// A pure function of the kernel and the context.
std::optional<LaidOut> lay_out_factors(Node kernel, const Compile& compile, Worth worth = Worth::Estimated);

}  // namespace lathe
