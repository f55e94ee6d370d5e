#include "engine/left_out.h"

#include <algorithm>
#include <string>

#include "base/env.h"
#include "base/error.h"
#include "base/text.h"
#include "codegen/codegen.h"
#include "schedule/kernel_rules.h"
#include "schedule/put_back.h"
#include "schedule/running_maximum.h"
#include "schedule/spread_sums.h"

namespace lathe::engine {

std::vector<std::string_view> known_rules() {
  std::vector<std::string_view> names{kRunningMaximumRule, kSpreadSumRule, kPutBackRule};
  for (const HeuristicRule& rule : heuristic_rules()) names.emplace_back(rule.name);
  for (const RuleTable& table : all_tables())
    for (const Rule& rule : table.rules) names.emplace_back(rule.name);
  return names;
}

void leave_out_rules() {
  thread_local std::string taken;
  const std::string& text = flag_text(Flag::Without);
  if (text == taken) return;
  const std::vector<std::string_view> known = known_rules();
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string name = text.substr(at, end - at);
    at = end + 1;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      auto error = UserError("LATHE_WITHOUT", "there is no rule named '" + name + "'");
      if (const auto meant = nearest_word(name, known))
        error.help("did you mean " + std::string(*meant) + "?");
      throw error.help(
          "lathe bench cpu --ablation lists those of the heuristic; those of rewriting are the rows under "
          "src/rules");
    }
    names.push_back(std::move(name));
  }
  set_disabled_rules(std::move(names));
  taken = text;
}

}  // namespace lathe::engine
