// Everything that is known of a session as JSON: what `--json` prints and what the MCP server's resources
// are.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "apps/investigations/store.h"

namespace lathe::investigations {

// In short: state, verdict, what comes next; with hypotheses.
nlohmann::json summary_of(Store& store, const std::string& id);
// All: also transitions, observations, scenarios, events and the environment's names (values may be secret).
nlohmann::json record_of(Store& store, const std::string& id);
std::string text_of(const nlohmann::json& json);

// A detached process that runs a queued session: `lathe investigate resume`. Its process id, 0 if it cannot
// start.
int start_in_background(const Store& store, const std::string& program, const std::string& id);
// Asks whoever runs it to stop and waits until it has; ends that process and what it started if it does not.
void cancel_session(Store& store, const std::string& id, const std::string& reason);

}  // namespace lathe::investigations
