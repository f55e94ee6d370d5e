// Files that are either complete or absent. Caches are shared by many processes, any of which may be killed
// at any time: a file is written under a temporary name and renamed, so a reader never sees a partial one. A
// FileLock keeps two processes from doing the same slow work; it is released when its process ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

// Yes: the bytes are on the disk before the name is. No: quicker, and enough for data that carries a
// checksum, because after a power cut the file may be empty or short.
enum class Sync : std::uint8_t { No, Yes };

// Private: for the user alone, from the moment there is such a file.
enum class Readers : std::uint8_t { Usual, Private };

// Writes the file in one step, making its folder if need be; throws DeviceError with the reason when it
// cannot.
void write_file_atomic(const std::string& path, std::string_view bytes, Sync sync = Sync::Yes,
                       Readers readers = Readers::Usual);

// The file's bytes, or nothing if there is no such file; throws DeviceError for any other reason.
std::optional<std::string> read_file(const std::string& path);

// Removes temporary files that killed writers left in a folder, if older than this many seconds; returns how
// many.
int remove_stale_temporaries(const std::string& folder, double older_than_seconds);

// An exclusive lock on a file that is made for it, held until destroyed.
class FileLock {
 public:
  // Waits for it.
  explicit FileLock(const std::string& path);
  // Returns nothing if another holds it.
  static std::optional<FileLock> try_lock(const std::string& path);

  FileLock(FileLock&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  FileLock() = default;
  int file_ = -1;
};

}  // namespace lathe
