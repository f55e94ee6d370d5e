// The clock of what Lathe says about its own costs: processor time of the calling thread, so that what else
// runs on the machine counts as little as possible. On a quiet machine it is wall time.
#pragma once

#include <ctime>

namespace lathe {

inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace lathe
