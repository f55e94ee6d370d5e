// LATHE_BEAM: the engine gets the options of each new kernel here. Options in the store are used; others are
// searched for, within LATHE_BEAM_SECONDS per kernel, and stored.
#pragma once

namespace lathe::search {

// Makes the engine ask. Cheap; done once.
void install();

}  // namespace lathe::search
