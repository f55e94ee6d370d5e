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

std::string write_repro(const Subject& subject, const std::string& about, std::string folder) {
  if (folder.empty()) folder = flag_text(Flag::Save);
  if (folder.empty()) {
    const engine::DiskCache* disk = engine::DiskCache::current();
    folder =
        disk != nullptr
            ? disk->folder() + "-repros"
            : (std::filesystem::temp_directory_path() / fmt::format("lathe-repros-{}", getuid())).string();
  }
  const std::string path =
      fmt::format("{}/repro_{}_{:016x}.txt", folder, subject.name, hash_string(to_text(subject)));
  try {
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    write_file_atomic(path, to_text(subject, about), Sync::No, Readers::Private);
  } catch (const DeviceError&) {
    return "";  // the finding matters more than the file
  }
  return path;
}

}  // namespace lathe::investigate
