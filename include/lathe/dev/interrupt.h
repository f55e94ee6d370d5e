// Ctrl-C during a compile: the compile stops with an error that says what it was compiling, instead of ending
// the process silently. Unstable: for tools.
#pragma once

namespace lathe::dev {

// Installs a handler: the first SIGINT asks running compiles to stop. A second one ends the process with
// status 130, and so does the first one after a second if nothing was compiling.
void stop_compiles_on_interrupt();

// While it lives, a SIGINT asks a compile of this thread to stop and is then passed to the previous handler.
// For front ends whose handler only sets a flag (as Python's does). Has an effect only on the main thread,
// and only if there was a handler.
class InterruptibleScope {
 public:
  InterruptibleScope();
  ~InterruptibleScope();
  InterruptibleScope(const InterruptibleScope&) = delete;
  InterruptibleScope& operator=(const InterruptibleScope&) = delete;
};

// Whether a SIGINT has arrived since stop_compiles_on_interrupt.
bool was_interrupted();

inline constexpr int kInterruptedStatus = 130;

}  // namespace lathe::dev
