// The IDX format: two zero bytes, a byte for the element type, a byte for the number of axes, each axis as a
// 32-bit size, then the elements; every number has its highest byte first.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "formats/gzip.h"
#include "lathe/datasets.h"

namespace lathe::datasets {
namespace {

constexpr char kOp[] = "read_idx";

struct ElementCode {
  std::uint8_t code;
  DataType dtype;
};
constexpr std::array kCodes = {
    ElementCode{0x08, dtypes::uint8}, ElementCode{0x09, dtypes::int8},    ElementCode{0x0b, dtypes::int16},
    ElementCode{0x0c, dtypes::int32}, ElementCode{0x0d, dtypes::float32}, ElementCode{0x0e, dtypes::float64},
};

std::optional<DataType> dtype_of_code(std::uint8_t code) {
  for (const ElementCode& row : kCodes)
    if (row.code == code) return row.dtype;
  return std::nullopt;
}

// Elements as this machine keeps them; it has its lowest byte first.
void to_native_order(std::vector<std::byte>& bytes, std::size_t width) {
  if (width == 1) return;
  for (std::size_t at = 0; at + width <= bytes.size(); at += width)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + width));
}

}  // namespace

std::int64_t IdxArray::count() const {
  std::int64_t n = 1;
  for (std::int64_t size : shape) n *= size;
  return n;
}

IdxArray read_idx(const std::filesystem::path& file) {
  std::vector<std::byte> bytes = formats::read_file(file, kOp);
  auto byte = [&](std::size_t i) { return std::to_integer<std::uint8_t>(bytes[i]); };
  auto refuse = [&](const std::string& why) {
    return UserError(kOp, fmt::format("{} {}", file.string(), why));
  };

  if (bytes.size() < 4) throw refuse(fmt::format("has {} bytes, an IDX header needs 4", bytes.size()));
  if (byte(0) != 0 || byte(1) != 0)
    throw refuse(fmt::format("is not an IDX file: it starts with {:02x} {:02x}, not with two zero bytes",
                             byte(0), byte(1)));
  const std::optional<DataType> dtype = dtype_of_code(byte(2));
  if (!dtype) throw refuse(fmt::format("is not an IDX file: {:#04x} is not an element type", byte(2)));
  const std::size_t rank = byte(3), header = 4 + 4 * rank;
  if (bytes.size() < header)
    throw refuse(fmt::format("is truncated: {} bytes of a header of {}", bytes.size(), header));

  IdxArray array{*dtype, {}, {}};
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::int64_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size * 256 + byte(4 + 4 * axis + i);
    array.shape.push_back(size);
  }
  // Compared one axis at a time: the product of sizes in a wrong file may not fit.
  const std::size_t found = bytes.size() - header;
  std::size_t wanted = static_cast<std::size_t>(dtype->itemsize());
  for (std::int64_t size : array.shape)
    wanted = size == 0 ? 0
                       : std::min(wanted, SIZE_MAX / static_cast<std::size_t>(size)) *
                             static_cast<std::size_t>(size);
  if (found != wanted)
    throw refuse(fmt::format(
        "{}: {} bytes of elements, shape {} of {} needs {}", found < wanted ? "is truncated" : "is too long",
        found, to_string(Shape(array.shape.begin(), array.shape.end())), dtype->name(), wanted));
  array.bytes.assign(bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end());
  to_native_order(array.bytes, static_cast<std::size_t>(dtype->itemsize()));
  return array;
}

}  // namespace lathe::datasets
