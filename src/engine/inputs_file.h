// What the buffers of a kernel held before it ran, as a file: LATHE_VERIFY with LATHE_SAVE writes one beside
// the kernel that is wrong, and investigations write one beside a repro. The user's data: for the user alone,
// and capped in size.
#pragma once

#include <string>
#include <vector>

#include "reference/array.h"
#include "reference/reference.h"

namespace lathe::engine {

struct SavedInputs {
  std::vector<reference::Array> buffers;  // by slot
  reference::Bindings values;             // of variables
};

// The file beside that of a kernel: kernel.data for kernel.txt.
std::string inputs_beside(const std::string& kernel_file);
// False where the buffers are too large, or the file cannot be written.
bool write_inputs(const std::string& path, const SavedInputs& inputs);
// Throws UserError naming the file and what is wrong with it.
SavedInputs read_inputs(const std::string& path);

}  // namespace lathe::engine
