#include "engine/inputs_file.h"

#include <cstring>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"

namespace lathe::engine {
namespace {

constexpr std::string_view kHead = "lathe inputs 1\n";
constexpr std::size_t kMostBytes = std::size_t{256} << 20;

}  // namespace

std::string inputs_beside(const std::string& kernel_file) {
  return std::filesystem::path(kernel_file).replace_extension(".data").string();
}

// The head, a line "dtype elements" for each buffer, one "value name number" for each variable, an empty
// line, and all bytes of the buffers one after the other.
bool write_inputs(const std::string& path, const SavedInputs& inputs) {
  std::size_t total = 0;
  for (const reference::Array& array : inputs.buffers) total += array.byte_count();
  if (total > kMostBytes) return false;
  std::string bytes(kHead);
  for (const reference::Array& array : inputs.buffers)
    bytes += fmt::format("{} {}\n", array.dtype().str(), array.size());
  for (const auto& [name, value] : inputs.values) bytes += fmt::format("value {} {}\n", name, value);
  bytes += "\n";
  bytes.reserve(bytes.size() + total);
  for (const reference::Array& array : inputs.buffers)
    bytes.append(reinterpret_cast<const char*>(array.data()), array.byte_count());
  try {
    write_file_atomic(path, bytes, Sync::No, Readers::Private);
  } catch (const DeviceError&) {
    return false;  // what is wrong matters more than the file about it
  }
  return true;
}

SavedInputs read_inputs(const std::string& path) {
  const std::optional<std::string> text = read_file(path);
  if (!text) throw UserError("inputs file", "there is no " + path);
  const auto broken = [&] { return UserError("inputs file", path + " is cut off, or no file of inputs"); };
  const std::size_t end = text->find("\n\n");
  if (!text->starts_with(kHead) || end == std::string::npos) throw broken();
  std::string_view left = *text;
  left.remove_prefix(end + 2);
  SavedInputs out;
  std::istringstream lines(text->substr(kHead.size(), end + 1 - kHead.size()));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, name;
    std::int64_t number = -1;
    words >> first;
    if (first == "value") {
      if (!(words >> name >> number)) throw broken();
      out.values.emplace_back(name, number);
      continue;
    }
    const std::optional<DType> dtype = parse_dtype(first);
    if (!dtype || !(words >> number) || number < 0 || static_cast<std::size_t>(number) > kMostBytes)
      throw broken();
    reference::Array& array = out.buffers.emplace_back(*dtype, number);
    if (left.size() < array.byte_count()) throw broken();
    std::memcpy(array.data(), left.data(), array.byte_count());
    left.remove_prefix(array.byte_count());
  }
  if (!left.empty()) throw broken();
  return out;
}

}  // namespace lathe::engine
