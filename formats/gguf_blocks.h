// Tensors of GGUF files: plain dtypes, and numbers packed in blocks with scales of their own.
#pragma once

#include <cstdint>
#include <string_view>

#include "lathe/tensor.h"

namespace lathe::formats {

struct GgufType {
  std::uint32_t code;
  std::string_view name;
  std::int64_t elements, bytes;  // of a block; one element where there are no blocks
  DataType dtype;                // of the elements, where there are no blocks
  Tensor (*unpacked)(
      const Tensor&);  // (blocks, bytes) of uint8 to (blocks, elements) of float32; null: plain
};
// Null for a code that is not read, or for a name that no type has.
const GgufType* gguf_type(std::uint32_t code);
const GgufType* gguf_type(std::string_view name);
// What the format calls a code that is not read, or nothing.
std::string_view unread_gguf_type(std::uint32_t code);

}  // namespace lathe::formats
