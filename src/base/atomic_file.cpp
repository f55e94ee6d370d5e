#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace lathe {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryMark = ".tmp-";

[[noreturn]] void fail(std::string_view doing, const std::string& path) {
  const int code = errno;
  throw DeviceError("file", "cannot " + std::string(doing) + " " + path + ": " + std::strerror(code));
}

// Closes its descriptor when it goes out of scope.
struct Descriptor {
  int number;
  explicit Descriptor(int n) : number(n) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

// Removes the file it names unless told that it was renamed away.
struct RemoveUnlessKept {
  std::string path;
  bool kept = false;
  ~RemoveUnlessKept() {
    if (!kept) unlink(path.c_str());
  }
};

void write_all(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

int open_lock_file(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code ignored;  // opening the file below reports what went wrong
  if (!folder.empty()) fs::create_directories(folder, ignored);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) fail("open", path);
  return file;
}

}  // namespace

void write_file_atomic(const std::string& path, std::string_view bytes, Sync sync, Readers readers) {
  static std::atomic<std::uint64_t> counter{0};
  const std::string temporary =
      path + std::string(kTemporaryMark) + std::to_string(getpid()) + "-" + std::to_string(counter++);
  const std::string folder = fs::path(path).parent_path().string();

  const auto create = [&] {
    return open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                readers == Readers::Private ? 0600 : 0666);
  };
  int number = create();
  if (number < 0 && errno == ENOENT && !folder.empty()) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw DeviceError("file", "cannot make folder " + folder + ": " + error.message());
    number = create();
  }
  if (number < 0) fail("write", path);

  RemoveUnlessKept guard{temporary};
  {
    const Descriptor file(number);
    write_all(file.number, bytes, path);
    if (sync == Sync::Yes && fsync(file.number) != 0) fail("write", path);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) fail("rename to", path);
  guard.kept = true;
  if (sync == Sync::Yes) {  // the new name is in the folder, which has to reach the disk as well
    const Descriptor directory(
        open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.number >= 0) fsync(directory.number);
  }
}

std::optional<std::string> read_file(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail("read", path);
  }
  struct stat info{};
  if (fstat(file.number, &info) != 0) fail("read", path);
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t have = 0;
  while (true) {
    if (have == bytes.size()) bytes.resize(have + 4096);  // it may have grown, or be a pipe without a size
    const ssize_t count = read(file.number, bytes.data() + have, bytes.size() - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path);
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  bytes.resize(have);
  return bytes;
}

int remove_stale_temporaries(const std::string& folder, double older_than_seconds) {
  int removed = 0;
  std::error_code error;
  const auto limit =
      fs::file_time_type::clock::now() - std::chrono::duration_cast<fs::file_time_type::duration>(
                                             std::chrono::duration<double>(older_than_seconds));
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().find(kTemporaryMark) == std::string::npos) continue;
    const auto written = entry.last_write_time(error);
    if (!error && written <= limit && fs::remove(entry.path(), error)) removed++;
  }
  return removed;
}

FileLock::FileLock(const std::string& path) : file_(open_lock_file(path)) {
  while (flock(file_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const Descriptor file(std::exchange(file_, -1));
    fail("lock", path);
  }
}

std::optional<FileLock> FileLock::try_lock(const std::string& path) {
  FileLock lock;
  lock.file_ = open_lock_file(path);
  while (flock(lock.file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) fail("lock", path);
  }
  return lock;
}

FileLock::~FileLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace lathe
