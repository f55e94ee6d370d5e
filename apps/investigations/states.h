// The states of an investigation, their names, and which may follow which: one table, so that the store, the
// command line and the tests agree.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lathe::investigations {

enum class State : std::uint8_t { Queued, Running, NeedsInput, Found, NotFound, Cancelled, Failed };

struct StateRow {
  State state;
  std::string_view name;
  bool over;                   // nothing happens any more unless it is resumed
  std::string_view following;  // names of the states that may follow
};

// Interrupted investigations are queued again. Whatever did not end with a cause may be resumed.
inline constexpr std::array<StateRow, 7> kStates{{
    {State::Queued, "queued", false, "running cancelled failed"},
    {State::Running, "running", false, "queued needs-input found not-found cancelled failed"},
    {State::NeedsInput, "needs-input", false, "queued running cancelled"},
    {State::Found, "found", true, ""},
    {State::NotFound, "not-found", true, "queued"},
    {State::Cancelled, "cancelled", true, "queued"},
    {State::Failed, "failed", true, "queued"},
}};

const StateRow& row(State state);
std::optional<State> state_named(std::string_view name);
bool may_follow(State before, State after);

}  // namespace lathe::investigations
