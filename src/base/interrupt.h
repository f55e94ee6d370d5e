// Ctrl-C while Lathe works: a signal handler sets a request, and long operations poll it: rewriting between
// nodes, compiling and running between kernels.
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

// Whether this thread should stop. Clears the request.
bool take_interrupt();

// Calls the function whenever a thread looks for a request, until there is one: for tests, which count the
// work between two looks. Null ends it.
void watch_interrupt_checks(void (*look)());

// Throws a UserError if this thread should stop; the message says what would have been done to which kernel.
void stop_before(std::string_view done, std::string_view kernel);

}  // namespace lathe
