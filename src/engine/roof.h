// The measured peak of the machine: operations per second and bytes per second. LATHE_DEBUG=2 prints what
// fraction of it a kernel reached.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/devices.h"

namespace lathe::engine {

struct Roof {
  struct Memory {
    std::size_t size;  // of what is worked on again and again
    double rate;       // bytes a second
  };
  double flops = 0;           // a second; 0 where it is not known
  std::vector<Memory> bytes;  // by size: caches are quicker than memory

  // For work that touches so many bytes: the rate of the largest size that is no larger.
  double bytes_rate(double touched) const;
};

// Measured on first use (about a tenth of a second) and remembered for the process, one for each device.
const Roof& roof_of(const OpenDevice& device);

// The shortest time these flops and bytes could take over the time they took; 0 where the roof is not known.
double share_of_roof(const OpenDevice& device, double flops, double bytes, double ns);

}  // namespace lathe::engine
