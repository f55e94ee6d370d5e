// Ctrl-C while something compiles: the compile stops with an error that says where it was, instead of the
// process dying without a word. Unstable: for tools.
#pragma once

namespace lathe::dev {

// From now on the first SIGINT asks running compiles to stop. A second one, or the same one a second later if
// nothing was compiling, ends the process with status 130.
void stop_compiles_on_interrupt();

// While it lives, a SIGINT asks a compile of this thread to stop, and then goes to the handler that was there
// before. For front ends whose handler only takes a note and looks at it later. Does something on the main
// thread only, and only where there is such a handler.
class InterruptibleScope {
 public:
  InterruptibleScope();
  ~InterruptibleScope();
  InterruptibleScope(const InterruptibleScope&) = delete;
  InterruptibleScope& operator=(const InterruptibleScope&) = delete;
};

// Whether a SIGINT has come since stop_compiles_on_interrupt.
bool was_interrupted();

inline constexpr int kInterruptedStatus = 130;

}  // namespace lathe::dev
