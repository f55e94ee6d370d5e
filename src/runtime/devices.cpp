#include "runtime/devices.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "base/error.h"
#include "runtime/executor.h"
#include "runtime/fork_guard.h"

namespace lathe {
namespace {

struct Table {
  std::mutex mutex;
  std::vector<std::unique_ptr<OpenDevice>> devices;
  std::map<std::string, OpenDevice*, std::less<>> by_spelling;
};

Table& table() {
  static auto* all = new Table;  // never destroyed: buffers may die during exit
  return *all;
}

// Work may still be running when main returns; threads and libraries it uses must outlive it.
void finish_at_exit() {
  if (in_forked_child()) return;
  try {
    executor().synchronize();
  } catch (const std::exception&) {
    // Nobody is left to hear of it.
  }
}

std::unique_ptr<OpenDevice> open_new(const DeviceName& name) {
  auto made = std::make_unique<OpenDevice>();
  made->name = name;
  made->text = name.str();
  made->backend = registry().find(name.backend);
  made->backend_number = static_cast<int>(made->backend - registry().all().data());
  if (made->backend->unavailable)
    if (const std::string reason = made->backend->unavailable(); !reason.empty())
      throw DeviceError("device", fmt::format("{} cannot be used here: {}", made->text, reason));
  made->device =
      made->backend->open_path ? made->backend->open_path(name.target) : made->backend->open(name.index);
  if (made->backend->compiler)
    made->compiler = made->backend->compiler(made->backend->open_path ? "" : name.target);
  for (Queue queue = 0; queue < made->device->queues(); ++queue)
    made->queues.push_back(executor().add_queue(*made, queue));
  return made;
}

}  // namespace

OpenDevice& open_device(std::string_view name) {
  refuse_in_forked_child();
  Table& all = table();
  std::lock_guard guard(all.mutex);
  if (const auto known = all.by_spelling.find(name);
      known != all.by_spelling.end() && known->second->device->is_current())
    return *known->second;
  const DeviceName parsed = parse_device_name(name);
  const std::string canonical = parsed.str();
  auto found = all.by_spelling.find(canonical);
  if (found == all.by_spelling.end() || !found->second->device->is_current()) {
    if (all.devices.empty()) {
      mark_device_process();
      std::atexit(finish_at_exit);
    }
    all.devices.push_back(open_new(parsed));
    found = all.by_spelling.insert_or_assign(canonical, all.devices.back().get()).first;
  }
  all.by_spelling.insert_or_assign(std::string(name), found->second);
  return *found->second;
}

std::vector<OpenDevice*> open_devices() {
  std::lock_guard guard(table().mutex);
  std::vector<OpenDevice*> result;
  for (const auto& device : table().devices) result.push_back(device.get());
  return result;
}

}  // namespace lathe
