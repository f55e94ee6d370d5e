// The clock for Lathe's own costs: CPU time of the calling thread, so that other load on the machine counts
// as little as possible. On an idle machine it equals wall time.
#pragma once

#include <ctime>

namespace lathe {

inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace lathe
