// Faults that a build with LATHE_FAULTS can plant, and how well an investigation finds them. In any other
// build there are none. Unstable: for tools.
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

// What became of one fault.
struct FaultTrial {
  PlantedFault fault;
  std::string subject;        // the kernel or graph it was found on; empty where none of them fails
  bool wrong_result = false;  // it gives a wrong result there, not an error
  bool localised = false;     // the investigation names the row's kind and cause
  Finding finding;
  double milliseconds = 0;  // of the investigation
};

// Kernels that faults are tried on: those of small programs, with several lists of options, as files in the
// folder. Nothing may be planted in this process.
std::vector<std::string> write_fault_subjects(const std::string& folder);

// Programs that faults around kernels are tried on: names, and one of them run. True where its result is
// right.
std::vector<std::string> checked_programs();
bool run_checked_program(const std::string& name);

// Plants the fault in the workers and commands of this process, looks for a subject that fails, and
// investigates it. `commands` run a program each.
FaultTrial try_fault(const PlantedFault& fault, const std::vector<std::string>& subjects,
                     const std::vector<std::vector<std::string>>& commands,
                     const InvestigationLimits& limits);

}  // namespace lathe::dev
