// Imported memory, and the callbacks to run when the device is done with it. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "runtime/device.h"

namespace lathe {

class Imports {
 public:
  explicit Imports(const char* device) : device_(device) {}

  // Lent under a handle of our own: odd, which no allocation's address is.
  Memory add(void* data, std::size_t bytes, Owner owner);
  static bool has_own_handle(const Memory& memory) { return memory.handle % 2 == 1; }
  // Lent under the handle that the device has for it.
  void add(std::uintptr_t handle, Owner owner);
  bool contains(std::uintptr_t handle) const;
  // Forgets it; the caller tells its owner once nothing uses it any more.
  [[nodiscard]] Owner take(std::uintptr_t handle);

 private:
  const char* device_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uintptr_t, Owner> owners_;
  std::uintptr_t next_ = 1;
};

}  // namespace lathe
