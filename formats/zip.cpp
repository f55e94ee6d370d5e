#include "formats/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "formats/gzip.h"

namespace lathe::formats {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                        kLocator64 = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                        kLocator64Bytes = 20, kMostComment = 0xffff;
constexpr std::uint64_t kIn64 = 0xffffffff, kIn64Short = 0xffff;  // "the number is in the 64-bit field"
constexpr std::uint16_t kExtra64 = 1;
constexpr int kStored = 0, kDeflated = 8;
// Deflate packs at most 258 bytes into 2 bits.
constexpr std::uint64_t kMostRatio = 1032;

std::uint64_t number_at(std::span<const std::byte> bytes, std::uint64_t at, int count) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, static_cast<std::size_t>(count));
  return value;
}

// The 64-bit fields of an entry follow one another, each only where the short one says so.
void take_long_fields(std::span<const std::byte> extra, std::initializer_list<std::uint64_t*> fields) {
  for (std::uint64_t at = 0; at + 4 <= extra.size();) {
    const std::uint64_t id = number_at(extra, at, 2), length = number_at(extra, at + 2, 2);
    if (length > extra.size() - at - 4) return;
    if (id == kExtra64) {
      std::uint64_t from = at + 4;
      for (std::uint64_t* field : fields) {
        if (*field != kIn64) continue;
        if (from + 8 > at + 4 + length) return;
        *field = number_at(extra, from, 8);
        from += 8;
      }
      return;
    }
    at += 4 + length;
  }
}

}  // namespace

ZipReader::Directory ZipReader::find_directory() const {
  if (file_.size() < kEndBytes) throw file_.refuse("is not a zip file: it is too short");
  const std::uint64_t tail = std::min(file_.size(), kEndBytes + kMostComment);
  const std::vector<std::byte> bytes = file_.read(file_.size() - tail, tail, "the end of the archive");
  for (std::uint64_t at = tail - kEndBytes + 1; at-- > 0;) {
    if (number_at(bytes, at, 4) != kEnd || number_at(bytes, at + 20, 2) != tail - at - kEndBytes) continue;
    const std::uint64_t end = file_.size() - tail + at;
    if (number_at(bytes, at + 4, 2) != 0 && number_at(bytes, at + 4, 2) != kIn64Short)
      throw file_.refuse_at(end, "the archive is one of several volumes");
    Directory found{number_at(bytes, at + 16, 4), number_at(bytes, at + 12, 4), number_at(bytes, at + 10, 2),
                    end};
    const bool wide = found.offset == kIn64 || found.size == kIn64 || found.count == kIn64Short;
    if (wide && end >= kLocator64Bytes && file_.number(end - kLocator64Bytes, 4, "the end") == kLocator64) {
      const std::uint64_t end64 = file_.number(end - kLocator64Bytes + 8, 8, "the end of the archive");
      if (!file_.has(end64, kEnd64Bytes) || file_.number(end64, 4, "the end") != kEnd64)
        throw file_.refuse_at(end - kLocator64Bytes,
                              "the 64-bit end of the archive is not where it should be");
      found = {file_.number(end64 + 48, 8, "the end"), file_.number(end64 + 40, 8, "the end"),
               file_.number(end64 + 32, 8, "the end"), end64};
    }
    if (found.offset > found.end || found.size > found.end - found.offset)
      throw file_.refuse_at(
          end, fmt::format("the directory lies at {} and has {} bytes, which is outside the file",
                           found.offset, found.size));
    return found;
  }
  throw file_.refuse("is not a zip file, or is truncated: it has no directory");
}

ZipReader::ZipReader(Source file) : file_(std::move(file)) {
  const Directory directory = find_directory();
  const std::vector<std::byte> bytes = file_.read(directory.offset, directory.size, "the directory");
  if (directory.count > bytes.size() / kCentralBytes)
    throw file_.refuse_at(directory.offset, fmt::format("the directory says {} members, but has {} bytes",
                                                        directory.count, bytes.size()));
  std::unordered_set<std::string> names;
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    const std::uint64_t begin = at;
    ZipMember member = read_member(bytes, at, directory.offset);
    const std::uint64_t header = member.offset;
    locate(member, header, directory.offset);
    if (!names.insert(member.name).second)
      throw file_.refuse_at(directory.offset + begin,
                            fmt::format("two members have the name \"{}\"", shown(member.name)));
    members_.push_back(std::move(member));
  }
  // Members that share bytes make a small file unpack to any size.
  std::vector<const ZipMember*> order;
  for (const ZipMember& m : members_) order.push_back(&m);
  std::sort(order.begin(), order.end(),
            [](const ZipMember* a, const ZipMember* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i - 1]->offset + order[i - 1]->packed > order[i]->offset)
      throw file_.refuse_at(order[i]->offset, fmt::format("members \"{}\" and \"{}\" overlap",
                                                          shown(order[i - 1]->name), shown(order[i]->name)));
}

ZipMember ZipReader::read_member(std::span<const std::byte> directory, std::uint64_t& at,
                                 std::uint64_t base) const {
  if (directory.size() - at < kCentralBytes || number_at(directory, at, 4) != kCentral)
    throw file_.refuse_at(base + at, "the directory has no entry here, where it says there is one");
  auto field = [&](std::uint64_t offset, int bytes) { return number_at(directory, at + offset, bytes); };
  const std::uint64_t name = field(28, 2), extra = field(30, 2), comment = field(32, 2);
  if (directory.size() - at - kCentralBytes < name + extra + comment)
    throw file_.refuse_at(base + at, "an entry of the directory is truncated");
  ZipMember member;
  member.name.assign(reinterpret_cast<const char*>(directory.data()) + at + kCentralBytes, name);
  auto refuse = [&](const std::string& why) {
    return file_.refuse_at(base + at, fmt::format("member \"{}\" {}", shown(member.name), why));
  };
  if ((field(8, 2) & 1) != 0) throw refuse("is encrypted");
  const std::uint64_t method = field(10, 2);
  if (method != kStored && method != kDeflated)
    throw refuse(fmt::format("is packed by method {}; stored and deflated ones are read", method));
  member.stored = method == kStored;
  member.crc = static_cast<std::uint32_t>(field(16, 4));
  member.packed = field(20, 4);
  member.size = field(24, 4);
  member.offset = field(42, 4);
  take_long_fields(directory.subspan(at + kCentralBytes + name, extra),
                   {&member.size, &member.packed, &member.offset});
  if (member.stored && member.packed != member.size)
    throw refuse(
        fmt::format("is stored, but has {} bytes packed and {} unpacked", member.packed, member.size));
  if (member.size / kMostRatio > member.packed)
    throw refuse(
        fmt::format("says that {} bytes unpack to {}, which is impossible", member.packed, member.size));
  at += kCentralBytes + name + extra + comment;
  return member;
}

// From the place of the member's own header to that of its data.
void ZipReader::locate(ZipMember& member, std::uint64_t header, std::uint64_t limit) const {
  auto refuse = [&](const char* why) {
    return file_.refuse_at(header, fmt::format("member \"{}\" {}", shown(member.name), why));
  };
  if (header > limit || limit - header < kLocalBytes) throw refuse("is outside the file");
  if (file_.number(header, 4, "a member") != kLocal) throw refuse("is not where the directory says");
  const std::uint64_t skip =
      file_.number(header + 26, 2, "a member") + file_.number(header + 28, 2, "a member");
  member.offset = header + kLocalBytes + skip;
  if (member.offset > limit || member.packed > limit - member.offset) throw refuse("is outside the file");
}

const ZipMember* ZipReader::find(std::string_view name) const {
  for (const ZipMember& member : members_)
    if (member.name == name) return &member;
  return nullptr;
}

std::vector<std::byte> ZipReader::read(const ZipMember& member) const {
  std::vector<std::byte> bytes = file_.read(member.offset, member.packed, "a member");
  const std::string name = name_of(member);
  if (!member.stored) bytes = unpack(bytes, Packing::Deflate, name, file_.op(), member.size);
  if (bytes.size() != member.size)
    throw UserError(file_.op(),
                    fmt::format("{} is truncated: {} of {} bytes", name, bytes.size(), member.size));
  if (crc32(bytes) != member.crc)
    throw UserError(file_.op(), fmt::format("{} is damaged: its checksum differs", name));
  return bytes;
}

Source ZipReader::source(const ZipMember& member) const {
  if (member.stored) return file_.part(member.offset, member.size, name_of(member));
  return {read(member), name_of(member), file_.op()};
}

Tensor ZipReader::view(const ZipMember& member) const {
  return source(member).view(0, dtypes::uint8, {Size(member.size)}, member.size);
}

std::string ZipReader::name_of(const ZipMember& member) const {
  return fmt::format("{}: member \"{}\"", file_.name(), shown(member.name));
}

// ---- writing: every member has 64-bit fields, which every reader of this century knows

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes, bool compressed) {
  std::vector<std::byte> packed;
  if (compressed) packed = deflate_bytes(bytes, op_);
  const std::span<const std::byte> data = compressed ? std::span<const std::byte>(packed) : bytes;
  ZipMember member{name, !compressed, crc32(bytes), data.size(), bytes.size(), 0};
  headers_.push_back(out_.position());
  // The data of a stored member begins at a multiple of 64, so that it can be used where it lies.
  constexpr std::uint64_t kAlign = 64, kLong = 20, kPadHead = 4;
  const std::uint64_t begin = out_.position() + kLocalBytes + name.size() + kLong + kPadHead;
  const std::uint64_t padding = (kAlign - begin % kAlign) % kAlign;
  out_.number(kLocal, 4);
  out_.number(45, 2);     // the version of the format that has 64-bit fields
  out_.number(0x800, 2);  // names are UTF-8
  out_.number(compressed ? kDeflated : kStored, 2);
  out_.number(0x00210000, 4);  // the first of January 1980: equal contents give equal files
  out_.number(member.crc, 4);
  out_.number(kIn64, 4);
  out_.number(kIn64, 4);
  out_.number(name.size(), 2);
  out_.number(kLong + kPadHead + padding, 2);
  out_.write(name);
  out_.number(kExtra64, 2);
  out_.number(16, 2);
  out_.number(member.size, 8);
  out_.number(member.packed, 8);
  out_.number(0xda7a, 2);  // an extra field of no meaning, for the alignment
  out_.number(padding, 2);
  out_.write(std::string(padding, '\0'));
  member.offset = out_.position();
  out_.write(data);
  members_.push_back(std::move(member));
}

void ZipWriter::finish() {
  const std::uint64_t directory = out_.position();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const ZipMember& m = members_[i];
    out_.number(kCentral, 4);
    out_.number(45, 2);
    out_.number(45, 2);
    out_.number(0x800, 2);
    out_.number(m.stored ? kStored : kDeflated, 2);
    out_.number(0x00210000, 4);
    out_.number(m.crc, 4);
    out_.number(kIn64, 4);
    out_.number(kIn64, 4);
    out_.number(m.name.size(), 2);
    out_.number(28, 2);
    out_.number(0, 2);  // no comment
    out_.number(0, 2);  // volume
    out_.number(0, 2);
    out_.number(0, 4);
    out_.number(kIn64, 4);
    out_.write(m.name);
    out_.number(kExtra64, 2);
    out_.number(24, 2);
    out_.number(m.size, 8);
    out_.number(m.packed, 8);
    out_.number(headers_[i], 8);
  }
  const std::uint64_t end = out_.position(), size = end - directory;
  out_.number(kEnd64, 4);
  out_.number(kEnd64Bytes - 12, 8);
  out_.number(45, 2);
  out_.number(45, 2);
  out_.number(0, 8);  // volumes
  out_.number(members_.size(), 8);
  out_.number(members_.size(), 8);
  out_.number(size, 8);
  out_.number(directory, 8);
  out_.number(kLocator64, 4);
  out_.number(0, 4);
  out_.number(end, 8);
  out_.number(1, 4);
  out_.number(kEnd, 4);
  out_.number(0, 4);
  out_.number(kIn64Short, 2);
  out_.number(kIn64Short, 2);
  out_.number(kIn64, 4);
  out_.number(kIn64, 4);
  out_.number(0, 2);
  out_.commit();
}

}  // namespace lathe::formats
