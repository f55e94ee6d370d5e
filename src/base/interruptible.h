// A call that takes long and looks for no interrupt, because it is somebody else's code: it runs on a thread
// of its own while the thread that asked looks. Ctrl-C returns to the user at once; the call goes on to its
// end with nobody waiting, since no library can be stopped in the middle, and a process that ends waits for
// it.
#pragma once

#include <functional>
#include <string_view>

namespace lathe {

// Runs `work`, which must own everything it touches and not throw. Throws as stop_before does when this
// thread is asked to stop first.
void run_interruptible(std::function<void()> work, std::string_view done, std::string_view kernel);

}  // namespace lathe
