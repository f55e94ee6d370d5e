// Where Lathe keeps what it need not find out twice: compiled kernels, schedules, how fast this machine is.
#pragma once

#include <string>

namespace lathe {

// The folder by LATHE_CACHE, else the user's; "" where nothing is to be kept, or no folder is known.
std::string cache_folder();

}  // namespace lathe
