// Faults planted on purpose, to test that investigations find them and name the right place. Only a build
// with LATHE_FAULTS has them: in other builds `planted` is a compile-time false, so no code remains. The
// faults are rows of faults.def; LATHE_FAULT names the one to plant.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/planted_config.h"

namespace lathe {

enum class Fault : std::uint8_t {
#define LATHE_FAULT(fault, name, class, how, kind, cause, breaks) fault,
#include "base/faults.def"
#undef LATHE_FAULT
};

enum class Planting : std::uint8_t {
  RuleConstant,
  RuleGuard,
  StepOperand,
  StepLoop,
  StepGate,
  StepIndex,
  Site
};

// A row of faults.def.
struct FaultRow {
  std::string_view name, part;  // `part` is the column class
  Planting how;
  std::string_view kind, cause, breaks;
};

#if LATHE_FAULTS
inline constexpr bool kCanPlant = true;
std::span<const FaultRow> fault_table();
const FaultRow* planted_fault();  // null where LATHE_FAULT names none
bool planted(Fault fault);
// Whether the one that is planted is planted so, in this rule or step.
bool planted_in(Planting how, std::string_view cause);
#else
inline constexpr bool kCanPlant = false;
constexpr bool planted(Fault) { return false; }
constexpr bool planted_in(Planting, std::string_view) { return false; }
#endif

}  // namespace lathe
