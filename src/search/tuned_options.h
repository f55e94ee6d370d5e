// LATHE_BEAM: the engine asks here for the options of each new kernel. What the store has is used; what it
// has not is searched for, within LATHE_BEAM_SECONDS a kernel, and kept.
#pragma once

namespace lathe::search {

// Makes the engine ask. Cheap; done once.
void install();

}  // namespace lathe::search
