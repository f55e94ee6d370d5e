// Compressed data, unpacked piece by piece: what comes out is never trusted to have the size that was
// claimed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lathe::formats {

// A file's bytes, uncompressed where it starts as a gzip file does. Throws UserError naming `op` where it
// cannot be read, is damaged or cut off, or is compressed and this build has no zlib.
std::vector<std::byte> read_file(const std::filesystem::path& file, const char* op);

bool is_gzip(std::span<const std::byte> start);

enum class Packing : std::uint8_t { Gzip, Deflate };
// Unpacks; `most` bounds what may come out. Throws UserError "op: name ...".
std::vector<std::byte> unpack(std::span<const std::byte> packed, Packing packing, const std::string& name,
                              const std::string& op, std::optional<std::uint64_t> most = std::nullopt);
// Raw deflate of the bytes; throws UserError in a build without zlib.
std::vector<std::byte> deflate_bytes(std::span<const std::byte> bytes, const std::string& op);

// The CRC-32 of zip and gzip, continued from `before`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace lathe::formats
