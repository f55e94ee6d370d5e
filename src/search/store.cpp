#include "search/store.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "engine/disk_cache.h"
#include "ir/text.h"
#include "search/worker.h"

namespace lathe::search {
namespace {

constexpr const char* kKind = "tuned";

std::string to_text(const Tuned& tuned) {
  return fmt::format("{} {} {} {}\n{}\n", tuned.is_default ? "default" : "found", tuned.default_ns,
                     tuned.best_ns, tuned.seconds, to_string(tuned.options));
}

std::optional<Tuned> from_text(const std::string& text) {
  std::istringstream in(text);
  std::string word, options;
  Tuned tuned;
  in >> word >> tuned.default_ns >> tuned.best_ns >> tuned.seconds;
  in.ignore(1);
  if (!in || !std::getline(in, options)) return std::nullopt;
  tuned.is_default = word == "default";
  try {
    tuned.options = parse_opts(options);
  } catch (const KernelOptError&) {
    return std::nullopt;
  }
  return tuned;
}

struct Memory {
  std::mutex mutex;
  std::map<std::string, Tuned> entries;                              // while there is no cache
  std::map<std::string, std::unique_ptr<engine::DiskCache>> stores;  // by folder
};
Memory& memory() {
  static auto* all = new Memory;  // a kernel may be compiled during exit
  return *all;
}

engine::DiskCache* store() {
  const std::string folder = store_folder();
  if (folder.empty()) return nullptr;
  Memory& all = memory();
  std::lock_guard guard(all.mutex);
  std::unique_ptr<engine::DiskCache>& found = all.stores[folder];
  if (found == nullptr) found = std::make_unique<engine::DiskCache>(folder);
  return found.get();
}

}  // namespace

std::string store_folder() {
  const engine::DiskCache* cache = engine::DiskCache::current();
  return cache == nullptr || cache->folder().empty() ? "" : cache->folder() + "-tuned";
}

std::string store_key(Node kernel, const OpenDevice& device) {
  return fmt::format("{}\n{}\n{}", code_version(), engine::compiler_key(*device.compiler),
                     print_graph(kernel));
}

std::optional<Tuned> find_tuned(const std::string& key) {
  if (engine::DiskCache* disk = store()) {
    const std::optional<std::string> text = disk->get(kKind, key);
    return text ? from_text(*text) : std::nullopt;
  }
  Memory& all = memory();
  std::lock_guard guard(all.mutex);
  const auto found = all.entries.find(key);
  return found == all.entries.end() ? std::nullopt : std::optional(found->second);
}

void keep_tuned(const std::string& key, const Tuned& tuned) {
  if (engine::DiskCache* disk = store()) {
    disk->put(kKind, key, to_text(tuned));
    return;
  }
  Memory& all = memory();
  std::lock_guard guard(all.mutex);
  all.entries[key] = tuned;
}

}  // namespace lathe::search
