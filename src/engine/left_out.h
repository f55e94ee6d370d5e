// LATHE_WITHOUT: rules of rewriting and of the heuristic that are left out, to see what each is worth or
// whether it is to blame.
#pragma once

#include <string_view>
#include <vector>

namespace lathe::engine {

std::vector<std::string_view> known_rules();

// Leaves out what the flag names on this thread, from now on. Throws UserError for a name that no rule has.
void leave_out_rules();

}  // namespace lathe::engine
