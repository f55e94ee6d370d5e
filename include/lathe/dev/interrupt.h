// Ctrl-C while something compiles: the compile stops with an error that says where it was, instead of the
// process dying without a word. Unstable: for tools.
#pragma once

namespace lathe::dev {

// From now on the first SIGINT asks running compiles to stop. A second one, or the same one a second later if
// nothing was compiling, ends the process with status 130.
void stop_compiles_on_interrupt();

// Whether a SIGINT has come since.
bool was_interrupted();

inline constexpr int kInterruptedStatus = 130;

}  // namespace lathe::dev
