// `lathe inspect` of a file that holds tensors: what it says about itself, and a line for each tensor.
#pragma once

#include <string>

namespace lathe::tool {

// Whether the file is GGUF, safetensors, a checkpoint or a folder of a model, and no kernel.
bool is_tensor_file(const std::string& path);
int inspect_tensor_file(const std::string& path, bool json);

}  // namespace lathe::tool
