// Tensors of GGUF files: plain dtypes, and numbers packed in blocks with scales of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lathe/tensor.h"

namespace lathe::formats {

namespace gguf {
// Numbers of blocks as whole numbers that a byte holds, scaled by 32: `codes` (blocks, parts..., 32 in one
// axis or more) in the order of the numbers; `scale` (blocks, parts...) float32, and `minimum` likewise,
// which is taken from each number, where the type has one.
struct ByteBlocks {
  Tensor codes, scale;
  std::optional<Tensor> minimum = std::nullopt;
};
constexpr std::int64_t kByteBlock = 32;
}  // namespace gguf

struct GgufType {
  std::uint32_t code;
  std::string_view name;
  std::int64_t elements, bytes;  // of a block; one element where there are no blocks
  DataType dtype;                // of the elements, where there are no blocks
  // (blocks, bytes) of uint8 to (blocks, elements) of float32; null: plain
  Tensor (*unpacked)(const Tensor&);
  // The same as bytes with scales, where the format's programs multiply them so; else null. Of the blocks, or
  // of what byte_parts makes of them where that is not null.
  gguf::ByteBlocks (*bytes_of)(const std::vector<Tensor>&) = nullptr;
  std::vector<Tensor> (*byte_parts)(const Tensor&) = nullptr;
};
std::span<const GgufType> gguf_types();
// Null for a code or a name that is not read.
const GgufType* gguf_type(std::uint32_t code);
const GgufType* gguf_type(std::string_view name);
// What the format calls a code that is not read, or nothing.
std::string_view unread_gguf_type(std::uint32_t code);

}  // namespace lathe::formats
