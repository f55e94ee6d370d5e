// The devices this process has opened, each once, kept until the process ends (a file that has changed since
// counts as another device of the same name). Whoever needs a device asks by name; all spellings of a name
// give the same one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/pool.h"
#include "runtime/registry.h"

namespace lathe {

struct OpenDevice {
  DeviceName name;
  std::string text;  // name.str()
  const Backend* backend = nullptr;
  int backend_number = 0;  // place in the registry
  std::unique_ptr<Device> device;
  std::shared_ptr<const Compiler>
      compiler;             // null where nothing can be compiled (DISK); shared with the backend
  std::vector<int> queues;  // numbers of its queues in the executor
  MemoryPool pool{*this};
};

// Opens the device, or finds it open. Throws UserError for an unknown name, DeviceError where it cannot be
// used and in a forked child.
OpenDevice& open_device(std::string_view name);

// All that are open, in the order in which they were opened.
std::vector<OpenDevice*> open_devices();

}  // namespace lathe
