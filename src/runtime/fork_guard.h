// Devices do not survive fork: their threads, contexts and locks stay behind in the parent. The first device
// to be opened marks the process; a child forked after that gets a clear error instead of a hang.
#pragma once

namespace lathe {

// Notes that this process uses devices.
void mark_device_process();

// Whether this process was forked from one that used devices.
bool in_forked_child();

// Throws DeviceError in such a child.
void refuse_in_forked_child();

}  // namespace lathe
