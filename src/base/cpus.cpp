#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/env.h"

namespace lathe {

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int stricter(int a, int b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

int cpus_for(double quota, double period) {
  if (quota <= 0 || period <= 0) return 0;
  return std::max(1, static_cast<int>(std::ceil(quota / period)));
}

// Version 2: "cpu.max" holds "<quota> <period>" or "max <period>".
int limit_v2(const std::string& folder) {
  double quota = 0, period = 0;
  if (std::sscanf(text_of(folder + "/cpu.max").c_str(), "%lf %lf", &quota, &period) != 2) return 0;
  return cpus_for(quota, period);
}

// Version 1: two files; a quota of -1 means none.
int limit_v1(const std::string& folder) {
  double quota = 0, period = 0;
  if (std::sscanf(text_of(folder + "/cpu.cfs_quota_us").c_str(), "%lf", &quota) != 1) return 0;
  if (std::sscanf(text_of(folder + "/cpu.cfs_period_us").c_str(), "%lf", &period) != 1) return 0;
  return cpus_for(quota, period);
}

// The strictest limit of a group and all groups above it. Inside a container the path may not be visible; the
// mount's own root, which is always tried, then is the container's group.
template <class Limit>
int limit_along(const std::string& mount, std::string path, Limit limit) {
  int strictest = limit(mount);
  while (!path.empty() && path != "/") {
    strictest = stricter(strictest, limit(mount + path));
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
  return strictest;
}

bool lists_cpu(const std::string& controllers) {
  std::istringstream words(controllers);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "cpu") return true;
  }
  return false;
}

int cpus_of_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());  // more CPUs than the set can name
}

}  // namespace

int cgroup_cpu_limit(std::string_view groups, const std::string& root) {
  int limit = 0;
  std::istringstream lines{std::string(groups)};
  for (std::string line; std::getline(lines, line);) {  // "<number>:<controllers>:<path>"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      path = line.substr(second + 1);
    if (controllers.empty()) limit = stricter(limit, limit_along(root, path, limit_v2));
    if (lists_cpu(controllers)) limit = stricter(limit, limit_along(root + "/cpu", path, limit_v1));
  }
  return limit;
}

int cpu_level_limit() {
  constexpr std::string_view kLevels = "x86-64-v";
  const std::string& text = flag_text(Flag::CpuLevel);
  return text.starts_with(kLevels) ? text[kLevels.size()] - '0' : 0;
}

int usable_cpus() {
  const int limit = cgroup_cpu_limit(text_of("/proc/self/cgroup"), "/sys/fs/cgroup");
  return std::max(1, stricter(cpus_of_affinity(), limit));
}

}  // namespace lathe
