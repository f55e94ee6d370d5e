// Kernels to try options on, as they are met: those of the op suite with its gradients, of small nets in
// training, and of programs that the fuzzer drew (folders of files that LATHE_SAVE writes).
#pragma once

#include <string>
#include <vector>

#include "ir/node.h"

namespace lathe::test {

struct PoolKernel {
  std::string from;  // "op_softmax 2": a graph and which of its kernels
  NodeRef kernel;
};

// Each kernel once, in a fixed order; those that take long to run or much memory are left out.
std::vector<PoolKernel> kernel_pool();
// The kernels in the files of a folder, by name.
std::vector<PoolKernel> saved_kernels(const std::string& folder);

}  // namespace lathe::test
