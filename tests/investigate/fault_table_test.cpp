// The table of planted faults, which every build has as text: each class has a judge that must notice it, and
// each option has a fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "base/planted.h"
#include "lathe/dev/planted_faults.h"
#include "lathe/options.h"

namespace lathe {
namespace {

constexpr FaultRow kRows[] = {
#define LATHE_FAULT(fault, name, part, how, kind, cause, breaks) \
  {name, part, Planting::how, kind, cause, breaks},
#include "base/faults.def"
#undef LATHE_FAULT
};

TEST(FaultTable, HasAtLeastSixtyWithNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const FaultRow& row : kRows) EXPECT_TRUE(names.insert(row.name).second) << row.name;
  EXPECT_GE(names.size(), 60u);
}

TEST(FaultTable, EveryClassHasAJudgeThatMustNoticeIt) {
  std::vector<std::string> judges;
  for (const dev::FaultJudge& judge : dev::fault_judges()) judges.push_back(judge.name);
  for (const FaultRow& row : kRows) {
    const std::vector<std::string> duty = dev::judges_of(std::string(row.part));
    EXPECT_FALSE(duty.empty()) << row.name << " is of class " << row.part;
    for (const std::string& judge : duty) EXPECT_NE(std::ranges::find(judges, judge), judges.end()) << judge;
  }
}

// The classes that must be there, whatever else is.
TEST(FaultTable, NoClassIsWithoutAFault) {
  for (const std::string_view part :
       {"rule", "option", "scoping", "barrier", "gate", "wait", "printer", "vector width", "32-bit overflow",
        "uninitialised accumulator", "memory plan", "capture"})
    EXPECT_TRUE(std::ranges::any_of(kRows, [&](const FaultRow& row) { return row.part == part; })) << part;
}

// By its cause, or by a name: "stage-panel-index" is one of STAGE.
TEST(FaultTable, EveryOptionThatComputesSomethingHasAFault) {
  for (int op = 0; op <= static_cast<int>(OptOp::JOIN); ++op) {
    const std::string_view option = name(static_cast<OptOp>(op));
    if (static_cast<OptOp>(op) == OptOp::NOLOCALS) continue;
    std::string lower(option);
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    EXPECT_TRUE(std::ranges::any_of(kRows, [&](const FaultRow& row) {
      const std::string causes = "|" + std::string(row.cause) + "|";
      return causes.find("|" + std::string(option) + "|") != std::string::npos ||
             row.name.find(lower) != std::string_view::npos;
    })) << option;
  }
}

}  // namespace
}  // namespace lathe
