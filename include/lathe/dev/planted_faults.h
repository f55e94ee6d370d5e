// Faults that a build with LATHE_FAULTS can plant, and trials of whether an investigation finds them. Other
// builds have none. Unstable: for tools.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/dev/investigation.h"

namespace lathe::dev {

struct PlantedFault {
  std::string name, part, kind, cause, breaks;  // a row of src/base/faults.def; `part` is its class
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

// The names of the programs on which faults outside of kernels are tried, and one of them run.
struct CheckedRun {
  bool right = false;  // its result is what plain loops give
  std::string race;    // two pieces of work that touch the same bytes without an order, by the executor's log
};
inline constexpr std::string_view kRaceHead = "no order: ";  // before a race that is printed
std::vector<std::string> checked_programs();
CheckedRun run_checked_program(const std::string& name);

// The checks of Lathe that faults are shown to.
struct FaultJudge {
  std::string name, notices;
};
std::vector<FaultJudge> fault_judges();
// The judges, by name, one of which has to notice every fault of a class.
std::vector<std::string> judges_of(const std::string& part);

// What the judges say of the subjects that fail because of a fault.
struct JudgedFault {
  PlantedFault fault;
  std::vector<std::pair<std::string, std::string>> caught;  // who noticed it first, and the words
  std::vector<std::string> missed_by;                       // those of its class, if none of them noticed it
  std::int64_t subjects = 0;                                // that fail, and were looked at
};
JudgedFault judge_fault(const PlantedFault& fault, const std::vector<std::string>& subjects,
                        const std::vector<std::vector<std::string>>& commands);

// Plants the fault in the workers and commands that this process starts, looks for a subject that fails, and
// investigates it. Each of `commands` runs one checked program.
FaultTrial try_fault(const PlantedFault& fault, const std::vector<std::string>& subjects,
                     const std::vector<std::vector<std::string>>& commands,
                     const InvestigationLimits& limits);

}  // namespace lathe::dev
