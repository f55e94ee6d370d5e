// A file about a kernel that differs from REF: its graph, its options and target, the samples that were
// compared, and the elements it read. Begins as the files of LATHE_SAVE do, so `lathe inspect` reads it.
// Private to the user, since it holds some of the program's data, and capped in size.
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
