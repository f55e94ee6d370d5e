// The experiments on one kernel that an investigation is made of, done in this process: what runs on a device
// may crash or hang, so an investigation has them done by a worker (worker.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "investigate/difference_map.h"
#include "investigate/subject.h"

namespace lathe::investigate {

// How a subject is compiled, beside what its file says.
struct Conditions {
  std::vector<std::string> without{};  // rules and steps, as LATHE_WITHOUT names them
  std::string printer{};               // LATHE_CPU, or as the subject has it
  bool without_options = false;
};

enum class Outcome : std::uint8_t {
  Right,    // every element that was judged is within its bound
  Wrong,    // some are not, or it did what no kernel may
  Unknown,  // nothing can be said
  Refused,  // it does not compile: an error of Lathe or of a compiler
  Crashed,  // with the process it ran in
  Hung,
};
// Of a kernel that checks indices: where a right one would report nothing, and where nobody can tell.
inline constexpr std::string_view kWroteOutside = "it wrote outside of buffer";
inline constexpr std::string_view kReportsOutside = "it reported an index that is outside",
                                  kOutsideInputs = "an index of its inputs is outside";

std::string_view name(Outcome outcome);
bool is_failure(Outcome outcome);  // Wrong, Refused, Crashed or Hung

// What a device left, against REF.
struct DeviceRun {
  Outcome outcome = Outcome::Unknown;
  std::string text{};     // the element that is furthest off, or what went wrong
  bool same_bits = true;  // in all runs
  std::int64_t passed = 0, failed = 0;
  Rows difference{};  // where it is wrong
};
DeviceRun run_on_device(const Subject& subject, const Conditions& conditions, int runs);

// A rule that was applied while one step ran.
struct RuleUse {
  std::string name, table;
  std::int64_t times = 0;
  bool changes_value = false;  // both sides were evaluated, and differ
  std::string example;         // where they do
};
// What each step gives, evaluated on REF.
struct StepVerdict {
  std::string part, name;
  bool optional = false;
  Outcome outcome = Outcome::Unknown;
  std::string text;
};
struct StepsRun {
  Outcome outcome = Outcome::Unknown;  // Right: all steps are; Wrong: the last of the list is not
  std::string text;                    // of the step that is wrong, or the error that ended the compile
  std::vector<StepVerdict> steps;      // up to the first that is wrong, in order
  std::vector<RuleUse> rules;          // applied in that one, in order of their first use
  std::string before{}, after{};       // what that one got and gave, as text
  Rows difference{};                   // of the results of what it gave
};
// Whether a fault that REF found is a lack of order between threads.
bool is_missing_order(std::string_view fault);
StepsRun run_steps_on_ref(const Subject& subject, const Conditions& conditions);

}  // namespace lathe::investigate
