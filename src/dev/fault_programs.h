// Small programs whose kernels take most rules, steps, options and printers' texts: what planted faults are
// tried on.
#pragma once

#include <string>
#include <vector>

namespace lathe::dev {

void run_fault_programs();

// Kernels that no tensor program of this size has, as text: indices that need 64 bits, and negative ones.
std::vector<std::string> fault_kernels();

}  // namespace lathe::dev
