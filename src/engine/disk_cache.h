// The disk cache of compiled kernels and schedules, shared by all processes of a user. The key is the text of
// everything an entry depends on. An entry is a file that is complete or absent and holds its key and a
// checksum; a damaged or unreadable one is skipped with one warning and written again. The folder is private
// to the user; when it exceeds its limit, the least recently used entries are removed.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lathe::engine {

class DiskCache {
 public:
  static constexpr std::uint64_t kDefaultCap = std::uint64_t{1} << 30;

  explicit DiskCache(std::string folder, std::uint64_t cap = kDefaultCap);

  // The value stored under this key, or nothing. `kind` is a folder name, such as "kernel"; `note` gets the
  // last note that was added to it, or nothing.
  std::optional<std::string> get(std::string_view kind, std::string_view key, std::string* note = nullptr);
  // Stores a value. A folder that cannot be written is one warning, not an error: the program works without
  // it.
  void put(std::string_view kind, std::string_view key, std::string_view value);
  // Adds what was learned later to an entry, if it is still there: a line in its file, where a file of its
  // own would cost many times as much. The entry may have been written again since, by another process.
  void add_note(std::string_view kind, std::string_view key, std::string_view text);

  // Removes entries until at most this many bytes are left, oldest use first. Returns the bytes left.
  std::uint64_t shrink_to(std::uint64_t bytes);

  const std::string& folder() const { return folder_; }
  std::string path_of(std::string_view kind, std::string_view key) const;  // for tests and tools
  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

  // The cache LATHE_CACHE names, the user's cache folder where it is empty, null where it is "off".
  static DiskCache* current();

 private:
  bool make_private_folder(const std::string& path);
  void maybe_shrink(std::uint64_t written);

  std::string folder_;
  std::uint64_t cap_;
  bool usable_ = true;
  std::atomic<std::uint64_t> hits_{0}, misses_{0}, written_{0};
};

}  // namespace lathe::engine
