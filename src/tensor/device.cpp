#include "lathe/device.h"

#include <mutex>

#include "base/env.h"
#include "engine/engine.h"
#include "runtime/registry.h"

namespace lathe {
namespace {

std::mutex mutex;
std::string chosen;  // by set_default_device

}  // namespace

std::string canonical_device(std::string_view device) {
  // A disk tensor's device names its file, whose spelling is kept.
  constexpr std::string_view kDisk = "DISK:";
  if (device.size() > kDisk.size() && device.starts_with(kDisk)) return std::string(device);
  return parse_device_name(device).str();
}

std::string default_device() {
  {
    std::lock_guard guard(mutex);
    if (!chosen.empty()) return chosen;
  }
  const std::string& flag = flag_text(Flag::Device);
  return flag.empty() ? "CPU" : canonical_device(flag);
}

void set_default_device(std::string_view device) {
  std::string name = device.empty() ? "" : canonical_device(device);
  std::lock_guard guard(mutex);
  chosen = std::move(name);
}

void synchronize() { engine::synchronize(); }

}  // namespace lathe
