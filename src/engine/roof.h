// What the machine can do at best, measured and not looked up: arithmetic a second and bytes a second. The
// line of LATHE_DEBUG=2 says how much of it a kernel reached.
#pragma once

#include "runtime/devices.h"

namespace lathe::engine {

struct Roof {
  double flops = 0, bytes = 0;  // a second; 0 where it is not known
};

// Measured on first use (about a tenth of a second) and remembered for the process.
Roof roof_of(const OpenDevice& device);

// The shortest time these flops and bytes could take over the time they took; 0 where the roof is not known.
double share_of_roof(const OpenDevice& device, double flops, double bytes, double ns);

}  // namespace lathe::engine
