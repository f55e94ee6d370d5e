#include "formats/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "formats/gzip.h"

namespace lathe::formats {
namespace {

std::string reason() { return std::strerror(errno); }

std::shared_ptr<int> open_file(const std::filesystem::path& file, const std::string& op) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (error || !std::filesystem::exists(status)) refuse_to_open(file, op, error ? error.value() : ENOENT);
  if (!std::filesystem::is_regular_file(status))
    throw UserError(op, fmt::format("{} is not a regular file", file.string()));
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) refuse_to_open(file, op, errno);
  return {new int(descriptor), [](int* held) {
            close(*held);
            delete held;
          }};
}

// The whole file in memory. Private, so that a write changes this process's copy of the page and no file.
std::shared_ptr<std::byte> map_file(int descriptor, std::uint64_t bytes, const std::string& name,
                                    const std::string& op) {
  if (bytes == 0) return nullptr;
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
  if (pages == MAP_FAILED) throw UserError(op, fmt::format("{} cannot be mapped: {}", name, reason()));
  return {static_cast<std::byte*>(pages), [bytes](std::byte* held) { munmap(held, bytes); }};
}

// What lies around the last small read of a file: headers are read a few bytes at a time, a vocabulary half a
// million times. One for each thread.
struct Nearby {
  std::weak_ptr<int> file;
  std::uint64_t begin = 0;
  std::vector<std::byte> bytes;

  bool holds(const std::shared_ptr<int>& from, std::uint64_t at, std::uint64_t count) const {
    return file.lock() == from && at >= begin && at + count <= begin + bytes.size();
  }
};
constexpr std::uint64_t kSmallRead = 4096, kNearby = 1 << 16;
thread_local Nearby nearby;

}  // namespace

void refuse_to_open(const std::filesystem::path& file, std::string_view op, int reason) {
  const std::string text = fmt::format("{} cannot be opened: {}", file.string(), std::strerror(reason));
  if (reason == ENOENT) throw MissingFile(op, text);
  throw UserError(op, text);
}

Source::Source(const state::Bytes& from, std::string op) : op_(std::move(op)) {
  if (const auto* tensor = std::get_if<Tensor>(&from)) {
    name_ = "the tensor";
    if (!tensor->defined() || tensor->dtype() != dtypes::uint8 || tensor->ndim() != 1)
      throw UserError(op_, fmt::format("{} is not a list of bytes",
                                       tensor->defined() ? tensor->str() : "an empty handle"))
          .help("give a path, or a uint8 tensor with one axis");
    whole_ = *tensor;
    held_ = std::make_shared<const std::vector<std::byte>>(tensor->bytes());
    size_ = held_->size();
    return;
  }
  const std::filesystem::path& file = *path_of(from);
  name_ = file.string();
  file_ = open_file(file, op_);
  const off_t end = lseek(*file_, 0, SEEK_END);
  if (end < 0) throw UserError(op_, fmt::format("{} cannot be read: {}", name_, reason()));
  size_ = static_cast<std::uint64_t>(end);
  whole_ = Tensor(file);
  if (static_cast<std::uint64_t>(whole_.nbytes()) != size_)
    throw UserError(op_, fmt::format("{} changed while it was opened", name_));
  if (std::holds_alternative<state::MappedFile>(from)) pages_ = map_file(*file_, size_, name_, op_);
}

Source::Source(std::vector<std::byte> bytes, std::string name, std::string op)
    : op_(std::move(op)), name_(std::move(name)), size_(bytes.size()) {
  whole_ = Tensor::from_bytes(bytes.data(), bytes.size(), {Size(bytes.size())}, dtypes::uint8, "CPU");
  held_ = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

std::vector<std::byte> Source::read(std::uint64_t offset, std::uint64_t count, std::string_view what) const {
  if (!has(offset, count))
    throw refuse_at(offset, fmt::format("the file is truncated: {} takes {} bytes, {} are left", what, count,
                                        offset <= size_ ? size_ - offset : 0));
  std::vector<std::byte> out(count);
  read_into(out.data(), offset, count, what);
  return out;
}

void Source::read_into(void* to, std::uint64_t offset, std::uint64_t count, std::string_view what) const {
  if (!has(offset, count))
    throw refuse_at(offset, fmt::format("the file is truncated: {} takes {} bytes, {} are left", what, count,
                                        offset <= size_ ? size_ - offset : 0));
  if (held_) {
    std::copy_n(held_->data() + start_ + offset, count, static_cast<std::byte*>(to));
    return;
  }
  const std::uint64_t at = start_ + offset;
  if (count <= kSmallRead && !nearby.holds(file_, at, count)) {
    nearby.bytes.resize(kNearby);
    const ssize_t got = pread(*file_, nearby.bytes.data(), kNearby, static_cast<off_t>(at));
    nearby.bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    nearby.file = file_, nearby.begin = at;
  }
  if (count <= kSmallRead && nearby.holds(file_, at, count)) {
    std::copy_n(nearby.bytes.data() + (at - nearby.begin), count, static_cast<std::byte*>(to));
    return;
  }
  for (std::uint64_t done = 0; done < count;) {
    const ssize_t got = pread(*file_, static_cast<std::byte*>(to) + done, count - done,
                              static_cast<off_t>(start_ + offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw refuse_at(offset + done, fmt::format("cannot be read: {}", reason()));
    if (got == 0) throw refuse_at(offset + done, "the file became shorter while it was read");
    done += static_cast<std::uint64_t>(got);
  }
}

std::uint64_t Source::number(std::uint64_t offset, int bytes, std::string_view what) const {
  std::uint64_t value = 0;
  read_into(&value, offset, static_cast<std::uint64_t>(bytes), what);  // this machine has the low byte first
  return value;
}

Tensor Source::view(std::uint64_t offset, DataType dtype, const Shape& shape, std::uint64_t count) const {
  const std::uint64_t bytes = count * static_cast<std::uint64_t>(dtype.itemsize());
  if (bytes == 0) return Tensor::empty(shape, {.dtype = dtype});
  const std::uint64_t at = start_ + offset;
  if (pages_ && at % static_cast<std::uint64_t>(dtype.itemsize()) == 0)
    return Tensor::from_blob(pages_.get() + at, shape, {.dtype = dtype}, [pages = pages_] {});
  return whole_[Slice{start_ + offset, start_ + offset + bytes}].bitcast(dtype).reshape(shape);
}

Source Source::part(std::uint64_t offset, std::uint64_t count, std::string name) const {
  if (!has(offset, count)) throw refuse_at(offset, fmt::format("{} is outside the file", name));
  Source some = *this;
  some.start_ += offset;
  some.size_ = count;
  some.name_ = std::move(name);
  return some;
}

Source Source::unpacked() const {
  if (size_ < 2 || !is_gzip(read(0, 2, "the start"))) return *this;
  return Source(unpack(read(0, size_, "the file"), Packing::Gzip, name_, op_), name_, op_);
}

const std::filesystem::path* path_of(const state::Bytes& bytes) {
  if (const auto* mapped = std::get_if<state::MappedFile>(&bytes)) return &mapped->path;
  return std::get_if<std::filesystem::path>(&bytes);
}

UserError Source::refuse(const std::string& why) const {
  return UserError(op_, fmt::format("{}: {}", name_, why));
}
UserError Source::refuse_at(std::uint64_t offset, const std::string& why) const {
  return UserError(op_, fmt::format("{}: at byte {}: {}", name_, offset, why));
}

bool checked_bytes(const std::vector<std::int64_t>& shape, int itemsize, std::uint64_t& bytes,
                   std::uint64_t& count) {
  // All other sizes are checked too where one is zero: a shape must be sound in itself.
  unsigned __int128 all = 1;
  bool none = false;
  for (std::int64_t size : shape) {
    if (size < 0) return false;
    none |= size == 0;
    all *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (all * static_cast<unsigned>(itemsize) > INT64_MAX) return false;
  }
  count = none ? 0 : static_cast<std::uint64_t>(all);
  bytes = count * static_cast<std::uint64_t>(itemsize);
  return true;
}

bool leaves_folder(std::string_view name) {
  if (name.empty() || name[0] == '/' || name[0] == '\\' || name.find('\0') != std::string_view::npos)
    return true;
  if (name.size() >= 2 && name[1] == ':') return true;  // a drive
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find_first_of("/\\", begin), name.size());
    if (name.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out;
  for (char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return text.size() > kMost ? out + "..." : out;
}

}  // namespace lathe::formats
