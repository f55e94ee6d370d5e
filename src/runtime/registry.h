// The backends of this build, as rows. Each folder under src/backends registers one; nothing else names them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace lathe {

struct Backend {
  std::string name;  // "CPU"
  // Targets it compiles for, the host's own first; empty where it compiles nothing (DISK).
  std::function<std::vector<std::string>()> targets;
  // A compiler for a target name ("" = this machine's). Needs no device.
  std::function<std::shared_ptr<const Compiler>(std::string_view target)> compiler;
  // Opens device `index` (virtual devices share one physical one). Throws DeviceError where there is none.
  std::function<std::unique_ptr<Device>(int index)> open;
  // Instead of `open`, where devices are named by a path ("DISK:/data/weights.bin").
  std::function<std::unique_ptr<Device>(const std::string& path)> open_path;
  // "" if the device can be used here, else the reason why not, for `lathe devices`.
  std::function<std::string()> unavailable;
};

class Registry {
 public:
  // Throws InternalError if the name is taken.
  void add(Backend backend);
  const Backend* find(std::string_view name) const;  // any case
  const std::vector<Backend>& all() const { return backends_; }

 private:
  std::vector<Backend> backends_;
};

// All backends of this build: made on first use by the generated backends::register_all.
const Registry& registry();

// Adds one more, before any device is opened: for tests and for programs with a device of their own.
void add_backend(Backend backend);

// "CPU", "cpu:0" and "CPU:0" are one device; throws UserError listing the known names.
struct DeviceName {
  std::string backend;
  int index = 0;
  std::string target;       // of "NULL:x86-64-v3"; the path of "DISK:/data/weights.bin"
  std::string str() const;  // canonical: index 0 is left out
  bool operator==(const DeviceName&) const = default;
};
DeviceName parse_device_name(std::string_view text);

}  // namespace lathe
