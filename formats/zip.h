// Zip archives: the list of their members, checked as a whole, and the members' bytes. Torch checkpoints and
// npz files are zip archives too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/output.h"
#include "formats/source.h"

namespace lathe::formats {

struct ZipMember {
  std::string name;
  bool stored = true;  // otherwise deflated
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, size = 0;
  std::uint64_t offset = 0;  // of its data in the file
  bool is_folder() const { return name.ends_with('/'); }
};

class ZipReader {
 public:
  // Reads the directory. Refuses two members of one name, members that are in each other or outside the file,
  // encrypted ones and those of an unknown method.
  explicit ZipReader(Source file);

  const std::vector<ZipMember>& members() const { return members_; }
  const ZipMember* find(std::string_view name) const;
  const Source& file() const { return file_; }

  // The member's bytes, unpacked and compared with its checksum.
  std::vector<std::byte> read(const ZipMember& member) const;
  // The member to be read as a file or used as a tensor of bytes. A stored one is read from this file when it
  // is used, and its checksum is not compared.
  Source source(const ZipMember& member) const;
  Tensor view(const ZipMember& member) const;

 private:
  struct Directory {
    std::uint64_t offset = 0, size = 0, count = 0, end = 0;
  };
  Directory find_directory() const;
  std::string name_of(const ZipMember& member) const;
  ZipMember read_member(std::span<const std::byte> directory, std::uint64_t& at, std::uint64_t base) const;
  void locate(ZipMember& member, std::uint64_t header, std::uint64_t limit) const;

  Source file_;
  std::vector<ZipMember> members_;
};

class ZipWriter {
 public:
  ZipWriter(const std::filesystem::path& file, const std::string& op) : out_(file, op), op_(op) {}
  void add(const std::string& name, std::span<const std::byte> bytes, bool compressed);
  void finish();

 private:
  Output out_;
  std::string op_;
  std::vector<ZipMember> members_;
  std::vector<std::uint64_t> headers_;
};

}  // namespace lathe::formats
