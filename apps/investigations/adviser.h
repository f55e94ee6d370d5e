// Somebody to ask for ideas: any endpoint that speaks OpenAI's protocol. It gets the failure and the kinds of
// experiments there are, and only answers that are such an experiment count. Without it, or when it fails,
// the investigation goes on.
#pragma once

#include <vector>

#include "apps/investigations/questions.h"

namespace lathe::investigations {

// What it proposes; nothing, and an event that says why, where it cannot be asked or makes no sense.
std::vector<Proposal> advised(Lab& lab);

}  // namespace lathe::investigations
