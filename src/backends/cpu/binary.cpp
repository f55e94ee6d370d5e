#include "backends/cpu/binary.h"

#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"

namespace lathe::backends {
namespace {

constexpr std::string_view kMagic = "lathe-cpu-1";

DeviceError broken() {
  return DeviceError("CPU", "a compiled kernel is damaged")
      .help("remove the cache of compiled kernels and try again");
}

std::string_view take_line(std::string_view& text) {
  std::size_t end = text.find('\n');
  if (end == std::string_view::npos) throw broken();
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

template <class T>
T take_number(std::string_view& text, int base = 10) {
  std::string_view line = take_line(text);
  T value{};
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, base);
  if (error != std::errc() || end != line.data() + line.size()) throw broken();
  return value;
}

}  // namespace

std::string pack(const CpuCode& code) {
  std::string head = fmt::format("{}\n{}\n{}\n{}\n{:x}\n", kMagic, static_cast<int>(code.kind), code.features,
                                 code.scratch_bytes, hash_string(code.code));
  return head.append(code.code);
}

CpuCode unpack(std::string_view bytes) {
  CpuCode out;
  if (take_line(bytes) != kMagic) throw broken();
  out.kind = take_number<int>(bytes) == 0 ? CodeKind::Object : CodeKind::SharedLibrary;
  out.features = take_line(bytes);
  out.scratch_bytes = take_number<std::int64_t>(bytes);
  auto sum = take_number<std::uint64_t>(bytes, 16);
  out.code = bytes;
  if (hash_string(out.code) != sum) throw broken();
  return out;
}

}  // namespace lathe::backends
