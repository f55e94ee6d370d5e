// Small programs whose kernels take most rules, steps, options and printers' texts: what planted faults are
// tried on.
#pragma once

#include <string>
#include <vector>

#include "lathe/dev/planted_faults.h"

namespace lathe::dev {

void run_fault_programs();

// Programs around their kernels: with intermediates that share memory ("plan"), with copies between devices
// ("wait", "devices"), with replays ("replay").
std::vector<std::string> checked_programs();
CheckedRun run_checked_program(const std::string& name);

// Kernels that no tensor program of this size has, as text: indices that need 64 bits, and negative ones.
std::vector<std::string> fault_kernels();

// out[i] = sum over j of Y[j] * (index[i] == (sum over k of (k < j + 1)) - 1) over 16 x 250 x 250 bytes: a
// reduce inside of another, which groups of threads may share.
std::string nested_group_kernel();

// A product of bfloat16 matrices, large enough for panels that are filled steps ahead.
std::string staged_product_kernel();

}  // namespace lathe::dev
