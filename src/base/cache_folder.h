// The folder in which Lathe caches compiled kernels, schedules and the measured speed of this machine.
#pragma once

#include <string>

namespace lathe {

// The folder by LATHE_CACHE, else the user's; "" where nothing is to be kept, or no folder is known.
std::string cache_folder();

}  // namespace lathe
