// Faults that a build with LATHE_FAULTS can plant, and trials of whether an investigation finds them. Other
// builds have none. Unstable: for tools.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lathe/dev/investigation.h"

namespace lathe::dev {

struct PlantedFault {
  std::string name, where, kind, cause, breaks;  // a row of src/base/faults.def
};
std::vector<PlantedFault> planted_faults();
bool can_plant_faults();

// The trial of one fault.
struct FaultTrial {
  PlantedFault fault;
  std::string subject;        // the kernel or graph that failed with it; empty if none did
  bool wrong_result = false;  // the failure is a wrong result, not an error
  bool localised = false;     // the investigation names the row's kind and cause
  Finding finding;
  double milliseconds = 0;  // of the investigation
};

// Writes the kernels that faults are tried on to the folder: those of small programs, each with several lists
// of options. No fault may be planted in this process.
std::vector<std::string> write_fault_subjects(const std::string& folder);

// The names of the programs on which faults outside of kernels are tried; run_checked_program runs one and
// returns whether its result is right.
std::vector<std::string> checked_programs();
bool run_checked_program(const std::string& name);

// Plants the fault in the workers and commands that this process starts, looks for a subject that fails, and
// investigates it. Each of `commands` runs one checked program.
FaultTrial try_fault(const PlantedFault& fault, const std::vector<std::string>& subjects,
                     const std::vector<std::vector<std::string>>& commands,
                     const InvestigationLimits& limits);

}  // namespace lathe::dev
