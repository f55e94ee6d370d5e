// Ctrl-C while Lathe works: a signal handler leaves a request, and whatever takes long looks for it between
// two steps: rewriting between nodes, compiling and running between kernels.
#pragma once

#include <cstdint>
#include <string_view>

namespace lathe {

// Asks one piece of work to stop: of any thread, or of a thread that is marked; forget_interrupt takes a
// request for these back. Safe in a signal handler.
enum class Interrupt : std::uint8_t { None, Any, Marked, Watched };
void request_interrupt(Interrupt whom = Interrupt::Any);
void mark_interruptible(bool on);  // this thread
void forget_interrupt();

// Whether this thread is asked to stop. The request counts as met.
bool take_interrupt();

// Calls the function whenever a thread looks for a request, until there is one: for tests, which count the
// work between two looks. Null ends it.
void watch_interrupt_checks(void (*look)());

// Throws a UserError if this thread is asked to stop: before what was done to which kernel.
void stop_before(std::string_view done, std::string_view kernel);

}  // namespace lathe
