// Files that may be compressed, read whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace lathe::formats {

// A file's bytes, uncompressed where it starts as a gzip file does. Throws UserError naming `op` where it
// cannot be read, is damaged or cut off, or is compressed and this build has no zlib.
std::vector<std::byte> read_file(const std::filesystem::path& file, const char* op);

}  // namespace lathe::formats
