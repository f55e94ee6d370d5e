// The peak float arithmetic of one core: chains of multiply-adds in registers, with the widest vectors of the
// machine. Kernels are compared with it.
#pragma once

namespace lathe {

// Takes so many steps of every chain and returns the float operations done; `sink` keeps the work from being
// dropped.
double multiply_adds(int steps, float* sink);

}  // namespace lathe
