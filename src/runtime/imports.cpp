#include "runtime/imports.h"

#include "base/error.h"

namespace lathe {

Memory Imports::add(void* data, std::size_t bytes, Owner owner) {
  std::lock_guard lock(mutex_);
  const std::uintptr_t handle = next_;
  next_ += 2;
  owners_.emplace(handle, std::move(owner));
  return {handle, bytes, data};
}

void Imports::add(std::uintptr_t handle, Owner owner) {
  std::lock_guard lock(mutex_);
  owners_[handle] = std::move(owner);
}

bool Imports::contains(std::uintptr_t handle) const {
  std::lock_guard lock(mutex_);
  return owners_.contains(handle);
}

Owner Imports::take(std::uintptr_t handle) {
  std::lock_guard lock(mutex_);
  auto found = owners_.find(handle);
  check_internal(found != owners_.end(), device_, "memory was freed twice");
  Owner owner = std::move(found->second);
  owners_.erase(found);
  return owner;
}

}  // namespace lathe
