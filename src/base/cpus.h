// The number of CPUs this process may use. It is often fewer than the machine has: a container may be limited
// to a set of CPUs or a share of time, and running more threads than that makes everything slower.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

// CPUs this process may run on, within its container's time limit; at least 1.
int usable_cpus();

// The highest x86-64 level whose instructions may be used (LATHE_CPU_LEVEL), and nothing beyond it; 0 where
// all that the machine has may be. It takes instructions away, it gives none.
int cpu_level_limit();

// The time limit in whole CPUs, rounded up, that control groups put on a process; 0 if none. `groups` is the
// text of /proc/self/cgroup, `root` where the groups are mounted (/sys/fs/cgroup).
int cgroup_cpu_limit(std::string_view groups, const std::string& root);

}  // namespace lathe
