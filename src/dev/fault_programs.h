// Small programs whose kernels take most rules, steps, options and printers' texts: what planted faults are
// tried on.
#pragma once

#include <string>
#include <vector>

namespace lathe::dev {

void run_fault_programs();

// Programs around their kernels: with intermediates that share memory ("plan"), with copies between devices
// ("wait"). True where the result is what plain loops give.
std::vector<std::string> checked_programs();
bool run_checked_program(const std::string& name);

// Kernels that no tensor program of this size has, as text: indices that need 64 bits, and negative ones.
std::vector<std::string> fault_kernels();

}  // namespace lathe::dev
