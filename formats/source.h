// The bytes of a file that is being read, wherever they are. Everything a reader takes from a source is
// checked against its size first, so a file's own claims about sizes never decide what is allocated, and
// every refusal names the file and the byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/state.h"

namespace lathe::formats {

class Source {
 public:
  // `op` is the public function that reads; refusals begin with it.
  Source(const state::Bytes& from, std::string op);
  // Bytes in memory that came out of another source: a member of an archive.
  Source(std::vector<std::byte> bytes, std::string name, std::string op);

  std::uint64_t size() const { return size_; }
  const std::string& name() const { return name_; }
  const std::string& op() const { return op_; }
  bool is_file() const { return file_ != nullptr; }  // name() is then its path

  // Whether these bytes are inside the file; never overflows.
  bool has(std::uint64_t offset, std::uint64_t count) const {
    return offset <= size_ && count <= size_ - offset;
  }
  // The bytes; refuses with "is cut off" where the file ends before.
  std::vector<std::byte> read(std::uint64_t offset, std::uint64_t count, std::string_view what) const;
  void read_into(void* to, std::uint64_t offset, std::uint64_t count, std::string_view what) const;
  // Little-endian numbers.
  std::uint64_t number(std::uint64_t offset, int bytes, std::string_view what) const;

  // A part of the file as a tensor that is read when it is used. The caller has checked that it fits.
  Tensor view(std::uint64_t offset, DataType dtype, const Shape& shape, std::uint64_t count) const;

  // A part of these bytes as a source of its own, read from the same place; offsets in refusals are its own.
  Source part(std::uint64_t offset, std::uint64_t count, std::string name) const;
  // The same bytes without their gzip envelope, where they have one.
  Source unpacked() const;

  UserError refuse(const std::string& why) const;
  UserError refuse_at(std::uint64_t offset, const std::string& why) const;

 private:
  std::string op_, name_;
  std::uint64_t start_ = 0, size_ = 0;                  // what is seen of the file
  std::shared_ptr<int> file_;                           // a descriptor, shared by copies; null for memory
  std::shared_ptr<std::byte> pages_;                    // of a mapped file, shared by the tensors over it
  std::shared_ptr<const std::vector<std::byte>> held_;  // shared by copies
  Tensor whole_;                                        // uint8; made at once, so that the file is pinned
};

// The path of a file, or null for bytes in memory.
const std::filesystem::path* path_of(const state::Bytes& bytes);

// Throws: the file cannot be opened, for the reason that errno has. A MissingFile where it is not there.
[[noreturn]] void refuse_to_open(const std::filesystem::path& file, std::string_view op, int reason);

// The number of bytes of `count` elements, or nothing where it does not fit 63 bits.
bool checked_bytes(const std::vector<std::int64_t>& shape, int itemsize, std::uint64_t& bytes,
                   std::uint64_t& count);

// Names of archive members that would leave the folder they are put in.
bool leaves_folder(std::string_view name);

// Text of a file for an error: control characters as escapes, cut to a reasonable length.
std::string shown(std::string_view text);

}  // namespace lathe::formats
