// A long call into a library that does not poll for interrupts runs on another thread while the caller polls.
// Ctrl-C returns to the user at once; the call continues in the background, since a library call cannot be
// stopped, and the process waits for it before it ends.
#pragma once

#include <functional>
#include <string_view>

namespace lathe {

// Runs `work`, which must own everything it touches and not throw. Throws as stop_before does when this
// thread is asked to stop first.
void run_interruptible(std::function<void()> work, std::string_view done, std::string_view kernel);

}  // namespace lathe
