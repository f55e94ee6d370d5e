#include "lathe/device.h"

#include "engine/engine.h"
#include "runtime/registry.h"

namespace lathe {

std::string canonical_device(std::string_view device) {
  // A disk tensor's device names its file, whose spelling is kept.
  constexpr std::string_view kDisk = "DISK:";
  if (device.size() > kDisk.size() && device.starts_with(kDisk)) return std::string(device);
  return parse_device_name(device).str();
}

std::string default_device() { return engine::default_device(); }

void set_default_device(std::string_view device) { engine::set_default_device(device); }

void synchronize() { engine::synchronize(); }

}  // namespace lathe
