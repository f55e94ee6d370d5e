// zip_extract and tar_extract: the regular files of an archive by name.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "formats/zip.h"

namespace lathe::state {
namespace {

using formats::leaves_folder;
using formats::shown;
using formats::Source;

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kMostLongName = 1 << 20;  // bytes of a name, or of the records before a member

std::string_view text_field(std::span<const std::byte> header, std::size_t at, std::size_t length) {
  const char* begin = reinterpret_cast<const char*>(header.data()) + at;
  return {begin, strnlen(begin, length)};
}

// Octal digits, or, marked by the top bit, a binary number with its highest byte first.
std::uint64_t number_field(std::span<const std::byte> header, std::size_t at, std::size_t length,
                           const Source& file, std::uint64_t place) {
  std::uint64_t value = 0;
  const auto first = std::to_integer<unsigned>(header[at]);
  if (first >= 0x80) {
    for (std::size_t i = 1; i < length; ++i) {
      if (value >> 55 != 0 || first != 0x80)
        throw file.refuse_at(place, "a number of the header is too large");
      value = value << 8 | std::to_integer<unsigned>(header[at + i]);
    }
    return value;
  }
  std::string_view text = text_field(header, at, length);
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (text.empty()) return 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() || stop != text.data() + text.size())
    throw file.refuse_at(place, fmt::format("\"{}\" is not an octal number", shown(text)));
  return value;
}

bool is_checksum_right(std::span<const std::byte> header, std::uint64_t stated) {
  std::uint64_t sum = 0;
  std::int64_t with_sign = 0;  // what some old writers summed
  for (std::size_t i = 0; i < kBlock; ++i) {
    const std::byte b = i >= 148 && i < 156 ? std::byte{' '} : header[i];
    sum += std::to_integer<unsigned>(b);
    with_sign += static_cast<signed char>(b);
  }
  return stated == sum || static_cast<std::int64_t>(stated) == with_sign;
}

struct PaxFields {
  std::string path;
  std::optional<std::uint64_t> size;
};

// Records "length key=value\n", the length counting itself.
void read_pax(std::string_view text, PaxFields& fields, const Source& file, std::uint64_t place) {
  while (!text.empty() && text[0] != '\0') {
    std::size_t length = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<std::size_t>(stop - text.data());
    if (error != std::errc() || length <= digits + 1 || length > text.size() || *stop != ' ' ||
        text[length - 1] != '\n')
      throw file.refuse_at(place, "a record before a member is damaged");
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos)
      throw file.refuse_at(place, "a record before a member has no value");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") {
      fields.path = value;
    } else if (key == "size") {
      std::uint64_t size = 0;
      const auto [end, bad] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (bad != std::errc() || end != value.data() + value.size())
        throw file.refuse_at(place, "a record before a member has an invalid size");
      fields.size = size;
    } else if (key.starts_with("GNU.sparse")) {
      throw NotSupported(file.op(), file.name() + ": a member has holes, which is not supported");
    }
    text.remove_prefix(length);
  }
}

std::string read_text(const Source& file, std::uint64_t at, std::uint64_t size) {
  if (size > kMostLongName) throw file.refuse_at(at, fmt::format("a name or record has {} bytes", size));
  const std::vector<std::byte> bytes = file.read(at, size, "a record before a member");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

StateDict zip_extract(const Bytes& from) {
  const formats::ZipReader zip(Source(from, "zip_extract"));
  StateDict files;
  for (const formats::ZipMember& member : zip.members()) {
    if (leaves_folder(member.name))
      throw zip.file().refuse(fmt::format("the name \"{}\" leaves the archive's folder", shown(member.name)));
    if (!member.is_folder()) files.emplace_back(member.name, zip.view(member));
  }
  return files;
}

StateDict tar_extract(const Bytes& from) {
  const Source file = Source(from, "tar_extract").unpacked();
  StateDict files;
  std::unordered_map<std::string, std::size_t> places;
  PaxFields every, next;
  std::string long_name;
  for (std::uint64_t at = 0; at < file.size();) {
    const std::vector<std::byte> header = file.read(at, kBlock, "a header");
    if (std::all_of(header.begin(), header.end(), [](std::byte b) { return b == std::byte{0}; })) break;
    if (!is_checksum_right(header, number_field(header, 148, 8, file, at)))
      throw file.refuse_at(at, at == 0 ? "is not a tar file: the first header's checksum is wrong"
                                       : "a header's checksum is wrong");
    const char kind = static_cast<char>(header[156]);
    const bool records = kind == 'x' || kind == 'g' || kind == 'L' || kind == 'K';
    std::uint64_t size = number_field(header, 124, 12, file, at);
    if (!records) size = next.size.value_or(every.size.value_or(size));
    if (kind >= '1' && kind <= '6') size = 0;  // links, devices and folders have no data
    const std::uint64_t data = at + kBlock;
    if (!file.has(data, size))
      throw file.refuse_at(at, fmt::format("the file is truncated: a member has {} bytes, {} are left", size,
                                           file.size() - data));
    if (kind == 'L') long_name = read_text(file, data, size).c_str();  // up to its zero byte
    if (kind == 'x') read_pax(read_text(file, data, size), next, file, data);
    if (kind == 'g') read_pax(read_text(file, data, size), every, file, data);
    if (kind == 'S')
      throw NotSupported(file.op(), file.name() + ": a member has holes, which is not supported");
    if (kind == '0' || kind == '\0' || kind == '7') {
      std::string name(text_field(header, 0, 100));
      if (text_field(header, 257, 5) == "ustar" && header[345] != std::byte{0} && header[262] == std::byte{0})
        name = fmt::format("{}/{}", text_field(header, 345, 155), name);
      if (!long_name.empty()) name = long_name;
      if (!every.path.empty()) name = every.path;
      if (!next.path.empty()) name = next.path;
      while (name.starts_with("./")) name.erase(0, 2);
      if (leaves_folder(name))
        throw file.refuse_at(at, fmt::format("the name \"{}\" leaves the archive's folder", shown(name)));
      const Tensor bytes = file.view(data, dtypes::uint8, {Size(size)}, size);
      // A later member of the same name replaces an earlier one, as in unpacking.
      if (!name.ends_with('/')) {
        const auto [place, fresh] = places.try_emplace(name, files.size());
        if (fresh)
          files.emplace_back(name, bytes);
        else
          files[place->second].second = bytes;
      }
    }
    if (!records) {
      next = {};
      long_name.clear();
    }
    at = data + (size + kBlock - 1) / kBlock * kBlock;
  }
  if (file.size() == 0) throw file.refuse("is not a tar file: it is empty");
  return files;
}

}  // namespace lathe::state
