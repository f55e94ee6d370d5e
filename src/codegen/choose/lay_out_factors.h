// Factors of a product that a matrix unit could read as rows of neighbours if they lay otherwise: images
// whose neighbours are pixels become images with their border whose neighbours are channels. Each such
// factor is stored once more, by a kernel that only moves, where the product gains more than that costs. Rows
// of steps that are no whole pieces are filled with zeros, and the product takes those steps as well.
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
