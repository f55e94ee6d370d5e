#include "tools/lathe/fault_judges.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

namespace lathe::tool {
namespace {

using Json = nlohmann::ordered_json;

void print_fault(const dev::JudgedFault& judged, bool json) {
  if (json) {
    Json caught = Json::object();
    for (const auto& [judge, says] : judged.caught) caught[judge] = says;
    fmt::print("{}\n", Json{{"name", judged.fault.name},
                            {"class", judged.fault.part},
                            {"subjects", judged.subjects},
                            {"caught", caught},
                            {"missed_by", judged.missed_by}}
                           .dump());
  } else {
    std::vector<std::string> names;
    for (const auto& [judge, says] : judged.caught) names.push_back(judge);
    fmt::print(
        "{:<28} {:<25} {}{}\n", judged.fault.name, judged.fault.part,
        names.empty() ? "noticed by nobody" : fmt::format("{}", fmt::join(names, ", ")),
        judged.missed_by.empty() ? "" : fmt::format("; MISSED by {}", fmt::join(judged.missed_by, ", ")));
  }
  std::fflush(stdout);
}

// A row per class: its faults, who has to notice them all, and how many each judge noticed.
struct Row {
  std::size_t faults = 0, missed = 0;
  std::map<std::string, std::size_t> by_judge;
};

void print_table(const std::vector<dev::JudgedFault>& all) {
  std::vector<std::string> order;
  std::map<std::string, Row> rows;
  for (const dev::JudgedFault& judged : all) {
    if (!rows.contains(judged.fault.part)) order.push_back(judged.fault.part);
    Row& row = rows[judged.fault.part];
    ++row.faults;
    row.missed += !judged.missed_by.empty();
    for (const auto& [judge, says] : judged.caught) ++row.by_judge[judge];
  }
  const std::vector<dev::FaultJudge> judges = dev::fault_judges();
  fmt::print("\n| class | faults |");
  for (const dev::FaultJudge& judge : judges) fmt::print(" {} |", judge.name);
  fmt::print("\n| --- | --: |");
  for (std::size_t i = 0; i < judges.size(); ++i) fmt::print(" --: |");
  fmt::print("\n");
  for (const std::string& part : order) {
    const Row& row = rows[part];
    const std::vector<std::string> duty = dev::judges_of(part);
    fmt::print("| {} | {} |", part, row.faults);
    for (const dev::FaultJudge& judge : judges) {
      const auto found = row.by_judge.find(judge.name);
      const std::size_t count = found == row.by_judge.end() ? 0 : found->second;
      const bool must = std::ranges::find(duty, judge.name) != duty.end();
      fmt::print(" {} |", must ? fmt::format("**{}**", count) : count == 0 ? "" : fmt::format("{}", count));
    }
    fmt::print("\n");
  }
}

}  // namespace

bool judge_faults(const std::vector<dev::PlantedFault>& faults, const std::vector<std::string>& subjects,
                  const std::vector<std::vector<std::string>>& commands, bool json) {
  std::vector<dev::JudgedFault> all;
  for (const dev::PlantedFault& fault : faults) {
    all.push_back(dev::judge_fault(fault, subjects, commands));
    print_fault(all.back(), json);
  }
  const auto missed = std::ranges::count_if(
      all, [](const dev::JudgedFault& judged) { return judged.subjects == 0 || !judged.missed_by.empty(); });
  if (json) {
    fmt::print("{}\n", Json{{"faults", all.size()}, {"missed", missed}}.dump());
  } else {
    print_table(all);
    fmt::print("\n{} of {} faults are noticed by a judge that has to notice all of their class (bold)\n",
               all.size() - static_cast<std::size_t>(missed), all.size());
  }
  return missed == 0;
}

}  // namespace lathe::tool
