#include "apps/investigations/states.h"

namespace lathe::investigations {

const StateRow& row(State state) { return kStates[static_cast<std::size_t>(state)]; }

std::optional<State> state_named(std::string_view name) {
  for (const StateRow& r : kStates)
    if (r.name == name) return r.state;
  return std::nullopt;
}

bool may_follow(State before, State after) {
  std::string_view rest = row(before).following;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == row(after).name) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

}  // namespace lathe::investigations
