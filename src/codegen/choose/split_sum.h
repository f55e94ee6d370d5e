// Splits a long sum of products with few outputs into two kernels, on targets with groups: sums of enough
// parts to keep all cores busy, and the sum of the parts with the rest of the kernel. An example is the
// gradient of a convolution's weights, which has few outputs and a step per pixel.
//
//   before   out[i] = f(sum k < 64*n: x[k] * y[k])
//   after    parts[p, i] = sum k < n: x[p*n + k] * y[p*n + k]        out[i] = f(sum p < 64: parts[p, i])
#pragma once

#include <cstdint>
#include <optional>

#include "codegen/choose/lay_out_factors.h"
#include "ir/node.h"
#include "pipeline/compile.h"

namespace lathe {

struct SplitSum {
  NodeRef parts;  // stores param 0, of size floats; its other params are those of the kernel, by slot
  NodeRef whole;  // reads them as param `params`
  int params = 0;
  std::int64_t size = 0;
};

std::optional<SplitSum> split_sum(Node kernel, const Compile& compile, Worth worth = Worth::Estimated);

}  // namespace lathe
