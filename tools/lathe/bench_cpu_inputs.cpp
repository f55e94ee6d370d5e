// What the rows of `lathe bench cpu` are given: numbers that depend on nothing but the row, in files that all
// contenders read.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

#include "lathe/error.h"
#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

// A row bound by memory walks over at least this much before it meets the same bytes again.
constexpr std::int64_t kRotation = std::int64_t{256} << 20;

std::int64_t item_bytes(const std::string& dtype) {
  return dtype == "f32" || dtype == "tf32"   ? 4
         : dtype == "i64"                    ? 8
         : dtype == "f16" || dtype == "bf16" ? 2
                                             : 1;
}

std::uint16_t to_bfloat(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

// Of a number below 65536 in size; the rest of the fraction is cut off.
std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + 15;
  if (exponent < 1)
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::abs(value) * 0x1p24f));
  return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(exponent) << 10 | (bits >> 13 & 0x3ff));
}

// Of a number below 2 in size with four bits of exponent; the rest of the fraction is cut off, as are numbers
// below 2^-6.
std::uint8_t to_fp8(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127 + 7;
  const std::uint32_t sign = bits >> 24 & 0x80;
  return static_cast<std::uint8_t>(
      exponent < 1 ? sign : sign | static_cast<std::uint32_t>(exponent) << 3 | (bits >> 20 & 7));
}

// Numbers in [0, 1), a multiplicative step and a mixed output.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2 + 1) {}
  float next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<std::uint32_t>(state_ >> 40)) * 0x1p-24f;
  }

 private:
  std::uint64_t state_;
};

template <class T, class Convert>
void fill(std::vector<char>& to, std::int64_t count, Convert convert) {
  to.resize(static_cast<std::size_t>(count) * sizeof(T));
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = convert();
    std::memcpy(to.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
}

std::vector<char> contents(const RowInput& input, std::uint64_t seed) {
  Numbers numbers(seed);
  const auto low = static_cast<float>(input.low), width = static_cast<float>(input.high - input.low);
  auto real = [&] { return low + width * numbers.next(); };
  std::vector<char> bytes;
  const std::int64_t count = input.elements();
  if (input.dtype == "f32" || input.dtype == "tf32")
    fill<float>(bytes, count, real);
  else if (input.dtype == "bf16")
    fill<std::uint16_t>(bytes, count, [&] { return to_bfloat(real()); });
  else if (input.dtype == "f16")
    fill<std::uint16_t>(bytes, count, [&] { return to_half(real()); });
  else if (input.dtype == "e4m3")
    fill<std::uint8_t>(bytes, count, [&] { return to_fp8(real()); });
  else
    fill<std::uint8_t>(bytes, count, [&] { return static_cast<std::uint8_t>(static_cast<int>(real())); });
  return bytes;
}

RowInput large(std::string dtype, std::vector<std::int64_t> shape, double low = -1, double high = 1) {
  return {std::move(dtype), std::move(shape), low, high, 1};
}

}  // namespace

std::int64_t RowInput::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}
std::int64_t RowInput::bytes() const { return elements() * item_bytes(dtype); }

namespace {

std::vector<RowInput> plain_inputs(const CpuRow& row) {
  const std::vector<std::int64_t>& s = row.sizes;
  const double low = row.dtype == "s8" ? -127 : -1, high = row.dtype == "s8" ? 128 : 1;
  if (row.kind == "gemm") {
    const bool a_turned = row.variant[0] == 't', b_turned = row.variant[1] == 't';
    return {large(row.dtype, {s[0], a_turned ? s[3] : s[1], a_turned ? s[1] : s[3]}, low, high),
            large(row.dtype, {s[0], b_turned ? s[2] : s[3], b_turned ? s[3] : s[2]}, low, high)};
  }
  if (row.kind == "conv")
    return {large(row.dtype, {s[0], s[1], s[2], s[3]}), large(row.dtype, {s[4], s[1], s[5], s[5]})};
  if (row.kind == "conv_input_gradient" || row.kind == "conv_weight_gradient")
    return {large(row.dtype, {s[0], s[1], s[2], s[3]}), large(row.dtype, {s[4], s[1], s[5], s[5]}),
            large(row.dtype, {s[0], s[4], s[2], s[3]})};
  if (row.kind == "attention") return std::vector<RowInput>(3, large(row.dtype, {s[0], s[1], s[2]}));
  if (row.kind == "tiny") return {large(row.dtype, {s[0], s[1]})};
  if (row.net) return {};

  // The large operand takes turns; a vector beside it does not.
  std::vector<RowInput> inputs;
  if (row.dtype == "q4")
    inputs = {large("u8", {s[0], s[1] / 32, 16}, 0, 256), large("f16", {s[0], s[1] / 32, 1}, 0.01, 0.02)};
  else
    inputs = {large(row.dtype, s, low, high)};
  if (row.kind.ends_with("_backward")) inputs.push_back(inputs[0]);
  std::int64_t bytes = 0;
  for (const RowInput& input : inputs) bytes += input.bytes();
  for (RowInput& input : inputs) input.copies = (kRotation + bytes - 1) / bytes;
  if (row.kind == "matvec") inputs.push_back(large("f32", {s[1]}));
  if (row.kind == "matvec_q4q8") {
    inputs.push_back(large("s8", {s[1]}, -127, 128));
    inputs.push_back(large("f32", {s[1] / 32}, 0.01, 0.02));
  }
  return inputs;
}

}  // namespace

std::vector<RowInput> inputs_of(const CpuRow& row) {
  std::vector<RowInput> inputs = plain_inputs(row);
  if (row.device == "CPU" || row.kind == "tiny") return inputs;  // those are bound by no memory
  std::int64_t bytes = 0;
  for (const RowInput& input : inputs) bytes += input.bytes();
  for (RowInput& input : inputs)
    if (bytes > 0) input.copies = (kRotation + bytes - 1) / bytes;
  return inputs;
}

void write_inputs(const CpuRow& row, const std::string& folder) {
  const std::vector<RowInput> inputs = inputs_of(row);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string path = fmt::format("{}/in{}", folder, i);
    std::ofstream file(path, std::ios::binary);
    const std::vector<char> bytes = contents(inputs[i], i + 1);
    // Copies differ by where they lie, not in what they hold: results stay comparable.
    for (std::int64_t copy = 0; copy < inputs[i].copies; ++copy)
      file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) throw UserError("bench cpu", "cannot write " + path).help("free some memory or disk");
  }
}

MappedFile::MappedFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat facts{};
  if (file < 0 || fstat(file, &facts) != 0) throw UserError("bench cpu", "cannot read " + path);
  size_ = static_cast<std::size_t>(facts.st_size);
  void* place = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (place == MAP_FAILED) throw UserError("bench cpu", "cannot map " + path);
  data_ = static_cast<const std::byte*>(place);
}
MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}
MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
float fp8_to_float(std::uint8_t bits) {
  const std::uint32_t exponent = bits >> 3 & 15, sign = std::uint32_t{bits} << 24 & 0x80000000;
  if (exponent == 0) return 0;
  return std::bit_cast<float>(sign | (exponent + 127 - 7) << 23 | (std::uint32_t{bits} << 20 & 0x700000));
}
float half_to_float(std::uint16_t bits) {
  const float fraction = static_cast<float>(bits & 0x3ffu) * 0x1p-24f;
  if ((bits >> 10 & 0x1fu) == 0) return bits & 0x8000u ? -fraction : fraction;
  return std::bit_cast<float>((bits & 0x8000u) << 16 | ((bits >> 10 & 0x1fu) - 15 + 127) << 23 |
                              (bits & 0x3ffu) << 13);
}

}  // namespace lathe::tool
