#include "investigate/repro_file.h"

#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/disk_cache.h"

namespace lathe::investigate {

namespace {

std::string write(const std::string& name, const std::string& text, const std::string& key,
                  std::string folder) {
  if (folder.empty()) folder = flag_text(Flag::Save);
  if (folder.empty()) {
    const engine::DiskCache* disk = engine::DiskCache::current();
    const auto temporary = std::filesystem::temp_directory_path() / fmt::format("lathe-repros-{}", getuid());
    folder = disk != nullptr ? disk->folder() + "-repros" : temporary.string();
  }
  const std::string path = fmt::format("{}/repro_{}_{:016x}.txt", folder, name, hash_string(key));
  try {
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    write_file_atomic(path, text, Sync::No, Readers::Private);
  } catch (const DeviceError&) {
    return "";  // the finding matters more than the file
  }
  return path;
}

}  // namespace

std::string write_repro(const Subject& subject, const std::string& about, const std::string& folder) {
  return write(subject.name, to_text(subject, about), to_text(subject), folder);
}

std::string write_repro(const GraphSubject& subject, const std::string& about, const std::string& folder) {
  return write("graph", to_text(subject, about), to_text(subject), folder);
}

}  // namespace lathe::investigate
