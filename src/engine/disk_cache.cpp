#include "engine/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

namespace lathe::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "lathe-cache 2\n";
// An entry's time of use is only renewed when it is this old, so that a hit costs no write.
constexpr double kRenewSeconds = 3600;
// The folder is measured again after this part of the cap was written.
constexpr std::uint64_t kMeasureEvery = 16;
constexpr double kStaleSeconds = 3600;

// magic, length of key and value, two checksums over both, key, value; then notes.
struct Head {
  std::uint64_t key_bytes, value_bytes, sum1, sum2;
};
// Before the text of each note.
struct NoteHead {
  std::uint64_t bytes, sum1, sum2;
};

std::string pack(std::string_view key, std::string_view value) {
  std::string body;
  body.reserve(key.size() + value.size());
  body.append(key).append(value);
  const Head head{key.size(), value.size(), hash_string(body, 1), hash_string(body, 2)};
  std::string entry(kMagic);
  entry.append(reinterpret_cast<const char*>(&head), sizeof head);
  return entry.append(body);
}

// The last note that is whole. One that is not ends them: it was cut off, and so is what came after it.
std::string last_note(std::string_view notes) {
  std::string_view last;
  for (NoteHead head{}; notes.size() >= sizeof head;) {
    std::memcpy(&head, notes.data(), sizeof head);
    notes.remove_prefix(sizeof head);
    const std::string_view text = notes.substr(0, head.bytes);
    if (text.size() != head.bytes || head.sum1 != hash_string(text, 1) || head.sum2 != hash_string(text, 2))
      break;
    last = text;
    notes.remove_prefix(text.size());
  }
  return std::string(last);
}

// The value of an entry: nothing and no reason if it belongs to another key, nothing and a reason if it is
// damaged.
std::optional<std::string> unpack(std::string_view entry, std::string_view key, std::string& damage,
                                  std::string* note) {
  Head head{};
  if (entry.size() < kMagic.size() + sizeof head || !entry.starts_with(kMagic)) {
    damage = "it does not begin like one";
    return std::nullopt;
  }
  std::memcpy(&head, entry.data() + kMagic.size(), sizeof head);
  std::string_view body = entry.substr(kMagic.size() + sizeof head);
  if (head.key_bytes > body.size() || head.value_bytes > body.size() - head.key_bytes) {
    damage =
        fmt::format("it has {} bytes where {} were written", body.size(), head.key_bytes + head.value_bytes);
    return std::nullopt;
  }
  const std::string_view notes = body.substr(head.key_bytes + head.value_bytes);
  body.remove_suffix(notes.size());
  if (head.sum1 != hash_string(body, 1) || head.sum2 != hash_string(body, 2)) {
    damage = "its checksum is wrong";
    return std::nullopt;
  }
  if (body.substr(0, head.key_bytes) != key) return std::nullopt;
  if (note != nullptr) *note = last_note(notes);
  return std::string(body.substr(head.key_bytes));
}

struct Entry {
  fs::path path;
  std::uint64_t bytes;
  fs::file_time_type used;
};

std::vector<Entry> list_entries(const std::string& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  const auto files =
      fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, error);
  for (auto it = files; !error && it != fs::end(files); it.increment(error)) {
    std::error_code gone;  // another process may remove it at any time
    if (it->is_directory(gone)) {
      remove_stale_temporaries(it->path().string(), kStaleSeconds);
      continue;
    }
    if (it->path().filename() == "lock") continue;
    const std::uint64_t bytes = it->file_size(gone);
    if (!gone) entries.push_back({it->path(), bytes, it->last_write_time(gone)});
  }
  return entries;
}

}  // namespace

DiskCache::DiskCache(std::string folder, std::uint64_t cap) : folder_(std::move(folder)), cap_(cap) {
  usable_ = !folder_.empty() && make_private_folder(folder_);
}

// Code is loaded from here, so no other user may write to it.
bool DiskCache::make_private_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  struct stat info{};
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    log_warning_once("cache",
                     fmt::format("cannot make {}: {}; working without a cache", path, std::strerror(errno)));
    return false;
  }
  if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    log_warning_once("cache", fmt::format("{} is not a folder; working without a cache", path));
    return false;
  }
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    log_warning_once("cache", fmt::format("others may write into {}; working without a cache", path));
    return false;
  }
  return true;
}

std::string DiskCache::path_of(std::string_view kind, std::string_view key) const {
  const std::string name = fmt::format("{:016x}{:016x}", hash_string(key, 3), hash_string(key, 4));
  return fmt::format("{}/{}/{}/{}", folder_, kind, name.substr(0, 2), name);
}

std::optional<std::string> DiskCache::get(std::string_view kind, std::string_view key, std::string* note) {
  if (!usable_) return std::nullopt;
  const std::string path = path_of(kind, key);
  std::optional<std::string> value;
  try {
    if (const std::optional<std::string> entry = read_file(path)) {
      std::string damage;
      value = unpack(*entry, key, damage, note);
      if (!damage.empty())
        log_warning_once("cache", fmt::format("ignoring the damaged entry {}: {}", path, damage));
    }
  } catch (const DeviceError& error) {
    log_warning_once("cache", error.message());
  }
  if (!value) {
    ++misses_;
    return std::nullopt;
  }
  ++hits_;
  struct stat info{};
  if (stat(path.c_str(), &info) == 0 && std::difftime(std::time(nullptr), info.st_mtime) > kRenewSeconds)
    utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return value;
}

void DiskCache::put(std::string_view kind, std::string_view key, std::string_view value) {
  if (!usable_) return;
  try {
    const std::string entry = pack(key, value);
    write_file_atomic(path_of(kind, key), entry, Sync::No);  // short after a power cut: the checksum shows it
    maybe_shrink(entry.size());
  } catch (const DeviceError& error) {
    log_warning_once("cache", error.message());
  }
}

void DiskCache::add_note(std::string_view kind, std::string_view key, std::string_view text) {
  if (!usable_) return;
  const NoteHead head{text.size(), hash_string(text, 1), hash_string(text, 2)};
  std::string note(reinterpret_cast<const char*>(&head), sizeof head);
  note += text;
  // In one write, so that two processes do not write into each other's. What cannot be noted is found out
  // again.
  const int file = open(path_of(kind, key).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  if (write(file, note.data(), note.size()) > 0) maybe_shrink(note.size());
  close(file);
}

// Measuring means listing the folder, so it is done the first time and then once in a while.
void DiskCache::maybe_shrink(std::uint64_t written) {
  const std::uint64_t before = written_.fetch_add(written);
  const std::uint64_t step = cap_ / kMeasureEvery + 1;
  if (before != 0 && before / step == (before + written) / step) return;
  shrink_to(cap_);
}

std::uint64_t DiskCache::shrink_to(std::uint64_t bytes) {
  if (!usable_) return 0;
  const std::optional<FileLock> lock = FileLock::try_lock(folder_ + "/lock");
  std::vector<Entry> entries = list_entries(folder_);
  std::uint64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  if (total <= bytes || !lock) return total;  // another process is at it
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  // A little below the cap, so that the next entry does not start this again.
  const std::uint64_t goal = bytes - bytes / 8;
  for (const Entry& entry : entries) {
    if (total <= goal) break;
    std::error_code error;
    if (fs::remove(entry.path, error)) total -= entry.bytes;
  }
  return total;
}

DiskCache* DiskCache::current() {
  const std::string folder = cache_folder();
  if (const std::string& flag = flag_text(Flag::Cache); flag == "off" || flag == "0") return nullptr;
  static std::mutex mutex;
  static auto* caches = new std::map<std::string, std::unique_ptr<DiskCache>>;  // by folder; never destroyed
  std::lock_guard guard(mutex);
  std::unique_ptr<DiskCache>& cache = (*caches)[folder];
  if (cache == nullptr) cache = std::make_unique<DiskCache>(folder);
  return cache.get();
}

}  // namespace lathe::engine
