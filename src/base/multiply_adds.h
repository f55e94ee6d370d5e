// The most float arithmetic one core can do: chains of multiply-adds in registers, as wide as the machine has
// them. What kernels are measured against.
#pragma once

namespace lathe {

// Takes so many steps of every chain and returns the float operations done; `sink` keeps the work from being
// dropped.
double multiply_adds(int steps, float* sink);

}  // namespace lathe
