// What NVRTC and ptxas say about the kernels of a unit: registers, spills, and messages after which a kernel
// runs far below what was meant (a serialised matrix product, an ignored register request).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lathe::backends {

struct KernelResources {
  std::string kernel;
  int registers = 0;
  int spill_stores = 0, spill_loads = 0;  // bytes
  int stack = 0;
};
std::vector<KernelResources> resources_in(std::string_view log);

// The lines of messages that must not be there: C7508 (setmaxnreg ignored), C7510, C7511 and C7517 (wgmma
// serialised), C7602 (too few registers for the threads).
std::vector<std::string> faults_in(std::string_view log);

}  // namespace lathe::backends
