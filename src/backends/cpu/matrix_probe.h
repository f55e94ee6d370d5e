// Whether the matrix units that CPUID names really work: each does one product whose result is known, in a
// child process, so that a fault is an answer. Hypervisors hide and break tile units; this is asked once a
// process.
#pragma once

#include <string>
#include <vector>

namespace lathe::backends {

// Those of the units (target/matrix_units.h) that gave the right result. Also asks the system to let this
// process use tile registers, where one of them needs that.
std::vector<std::string> working_units(const std::vector<std::string>& units);

}  // namespace lathe::backends
