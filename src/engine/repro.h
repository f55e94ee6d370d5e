// The reproducer file of a kernel that differs from REF: its graph, options and target, the compared samples
// and the elements it read. It starts like a file of LATHE_SAVE, so `lathe inspect` reads it. It is private
// to the user, since it holds some of the program's data, and limited in size.
#pragma once

#include <string>

#include "engine/kernels.h"
#include "engine/trial.h"
#include "runtime/devices.h"

namespace lathe::engine {

// Where the file is: in the folder LATHE_SAVE names, else beside the disk cache; empty where it could not be
// written.
std::string write_repro(const Trial& trial, const MadeKernel& wrong, const OpenDevice& device,
                        const Outcome& outcome);

}  // namespace lathe::engine
