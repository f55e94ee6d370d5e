#include "runtime/storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "ir/build.h"
#include "runtime/devices.h"
#include "runtime/faults.h"
#include "runtime/fork_guard.h"

namespace lathe {
namespace {

// The memory of one buffer.
struct Storage {
  OpenDevice* device = nullptr;
  Memory memory;
  std::size_t bytes = 0;
  bool imported = false;
  PlaceRef made;
  Faults faults;

  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage() {
    if (device == nullptr || in_forked_child()) return;
    try {
      give_back();
    } catch (const Error& error) {  // the work failed; waiting for its result throws the same error
      log_warning_once("memory", error.what());
    }
  }

 private:
  void give_back() {
    if (!imported) {
      device->pool.give(memory);
      return;
    }
    executor().wait_unused(*device, {memory, 0, bytes});
    device->pool.count_foreign(-static_cast<std::ptrdiff_t>(bytes));
    device->device->free(memory);
  }
};

using StorageRef = std::unique_ptr<Storage>;

struct Table {
  std::mutex mutex;
  std::unordered_map<std::int64_t, StorageRef> by_id;
  std::atomic<std::size_t> with_faults = 0;
};

Table& table() {
  static auto* all = new Table;  // never destroyed: buffers may die during exit
  return *all;
}

// Runs wherever the last handle is dropped. The memory goes back outside the lock: that may wait for work.
void buffer_died(std::int64_t id) {
  if (in_forked_child()) return;
  StorageRef last;
  std::lock_guard guard(table().mutex);
  if (auto found = table().by_id.find(id); found != table().by_id.end()) {
    last = std::move(found->second);
    if (last->faults != nullptr) --table().with_faults;
    table().by_id.erase(found);
  }
}

void watch_deaths() {
  static const bool once = [] {
    set_buffer_death_hook(buffer_died);
    return true;
  }();
  static_cast<void>(once);
}

// The bytes of a buffer that has memory.
std::optional<Place> find(Node buffer) {
  std::lock_guard guard(table().mutex);
  const auto found = table().by_id.find(buffer_id(buffer));
  if (found == table().by_id.end()) return std::nullopt;
  const Storage& storage = *found->second;
  return Place{storage.device, {storage.memory, 0, storage.bytes}};
}

// Gives a buffer its memory, unless another thread was quicker (the memory then goes back, outside the lock).
// Returns whether it did.
bool enter(Node buffer, StorageRef storage) {
  watch_deaths();
  storage->made = current_place();
  std::lock_guard guard(table().mutex);
  return table().by_id.try_emplace(buffer_id(buffer), std::move(storage)).second;
}

}  // namespace

Place place_of(Node buffer) {
  if (const std::optional<Place> known = find(buffer)) return *known;
  auto storage = std::make_unique<Storage>();
  OpenDevice& device = open_device(buffer_device(buffer));
  storage->memory = device.pool.take(buffer_bytes(buffer));
  storage->device = &device;
  device.device->begin_use(storage->memory, buffer_bytes(buffer));
  storage->bytes = buffer_bytes(buffer);
  enter(buffer, std::move(storage));
  return *find(buffer);
}

bool has_memory(Node buffer) { return find(buffer).has_value(); }

bool has_memory(std::int64_t buffer_id) {
  std::lock_guard guard(table().mutex);
  return table().by_id.contains(buffer_id);
}

void import_memory(Node buffer, void* data, std::size_t bytes, Owner owner) {
  auto storage = std::make_unique<Storage>();
  OpenDevice& device = open_device(buffer_device(buffer));
  storage->memory = device.device->import(data, bytes, std::move(owner));
  storage->device = &device;
  storage->bytes = bytes;
  storage->imported = true;
  device.pool.count_foreign(static_cast<std::ptrdiff_t>(bytes));
  check_internal(enter(buffer, std::move(storage)), "storage", "the buffer has memory already");
}

void set_made(Node buffer, PlaceRef place) {
  std::lock_guard guard(table().mutex);
  const auto found = table().by_id.find(buffer_id(buffer));
  if (found != table().by_id.end()) found->second->made.swap(place);  // the old one dies outside the lock
}

Faults faults_of(Node buffer) {
  if (!any_faults()) return nullptr;
  std::lock_guard guard(table().mutex);
  const auto found = table().by_id.find(buffer_id(buffer));
  return found == table().by_id.end() ? nullptr : found->second->faults;
}

void set_faults(Node buffer, const Faults& faults) {
  if (faults == nullptr && !any_faults()) return;
  Faults old;  // dies outside the lock
  std::lock_guard guard(table().mutex);
  const auto found = table().by_id.find(buffer_id(buffer));
  if (found == table().by_id.end()) return;
  old = std::exchange(found->second->faults, faults);
  if ((old != nullptr) != (faults != nullptr)) table().with_faults += faults != nullptr ? 1 : -1;
}

bool any_faults() { return table().with_faults != 0; }

std::vector<LiveBuffer> live_buffers() {
  std::vector<LiveBuffer> result;
  std::vector<PlaceRef> places;
  {
    std::lock_guard guard(table().mutex);
    for (const auto& [id, storage] : table().by_id) {
      result.push_back({id, storage->device->text, storage->bytes, ""});
      places.push_back(storage->made);
    }
  }
  // Putting a place into words may run a front end's code, which may make or drop tensors.
  for (std::size_t i = 0; i < result.size(); ++i)
    if (places[i]) result[i].made = places[i]->text();
  std::sort(result.begin(), result.end(), [](const LiveBuffer& a, const LiveBuffer& b) {
    return std::tie(b.bytes, a.id) < std::tie(a.bytes, b.id);
  });
  return result;
}

std::string memory_report(std::size_t most_lines) {
  struct Group {
    std::string device, made;
    std::size_t bytes = 0, count = 0;
  };
  std::map<std::tuple<std::string, std::string, std::size_t>, Group> groups;
  std::size_t total = 0, count = 0;
  for (const LiveBuffer& buffer : live_buffers()) {
    Group& group = groups[{buffer.device, buffer.made, buffer.bytes}];
    group = {buffer.device, buffer.made, buffer.bytes, group.count + 1};
    total += buffer.bytes;
    ++count;
  }
  std::vector<Group> sorted;
  for (auto& [key, group] : groups) sorted.push_back(std::move(group));
  std::sort(sorted.begin(), sorted.end(), [](const Group& a, const Group& b) {
    const std::size_t sum_a = a.bytes * a.count, sum_b = b.bytes * b.count;
    return std::tie(sum_b, a.device, a.made, a.bytes) < std::tie(sum_a, b.device, b.made, b.bytes);
  });
  std::string text = fmt::format("{} buffers, {}\n", count, human_bytes(total));
  for (std::size_t i = 0; i < sorted.size() && i < most_lines; ++i)
    text +=
        fmt::format("  {:>10} = {:>4} x {:<10} {:<8} {}\n", human_bytes(sorted[i].bytes * sorted[i].count),
                    sorted[i].count, human_bytes(sorted[i].bytes), sorted[i].device,
                    sorted[i].made.empty() ? "(unknown place)" : sorted[i].made);
  if (sorted.size() > most_lines) text += fmt::format("  and {} more lines\n", sorted.size() - most_lines);
  return text;
}

}  // namespace lathe
