// A fault that is planted in what this process starts, and the kernels it is tried on.
#pragma once

#include <string>

#include "investigate/worker.h"
#include "lathe/dev/planted_faults.h"

namespace lathe::dev {

// Workers and commands that are started while it lives have the fault.
class PlantedScope {
 public:
  explicit PlantedScope(const PlantedFault& fault);
  ~PlantedScope();
  PlantedScope(const PlantedScope&) = delete;
  PlantedScope& operator=(const PlantedScope&) = delete;
};

// A saved kernel; for a fault of the C printer it is printed as C.
investigate::Subject read_subject_for(const PlantedFault& fault, const std::string& path);
// How a saved kernel or graph fares with the fault.
investigate::Outcome outcome_of(const PlantedFault& fault, const std::string& path,
                                investigate::Laboratory& laboratory);
// Whether it is tried on commands, because no kernel by itself shows it.
bool is_around_kernels(const PlantedFault& fault);

}  // namespace lathe::dev
