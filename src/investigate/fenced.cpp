#include "investigate/fenced.h"

#include <cstring>
#include <vector>

#include "runtime/devices.h"

namespace lathe::investigate {
namespace {

// Bytes around each buffer that must stay as they are.
constexpr std::size_t kFence = 4096;
constexpr unsigned char kFenceByte = 0xa5;

}  // namespace

Fenced::Fenced(OpenDevice& device, std::size_t bytes)
    : device_(device), bytes_(bytes), memory_(device.device->alloc(bytes + 2 * kFence)) {}

Fenced::~Fenced() {
  executor().wait_unused(device_, whole());
  device_.device->free(memory_);
}

Place Fenced::place() const { return {&device_, {memory_, kFence, bytes_}}; }

Span Fenced::whole() const { return {memory_, 0, bytes_ + 2 * kFence}; }

void Fenced::fill(const reference::Array& array) {
  std::vector<unsigned char> all(bytes_ + 2 * kFence, kFenceByte);
  if (bytes_ > 0) std::memcpy(all.data() + kFence, array.data(), bytes_);
  const Place host{nullptr, {{0, all.size(), all.data()}, 0, all.size()}};
  executor().wait(executor().copy({&device_, whole()}, host));
}

bool Fenced::read(reference::Array& array) const {
  std::vector<unsigned char> all(bytes_ + 2 * kFence);
  const Place host{nullptr, {{0, all.size(), all.data()}, 0, all.size()}};
  executor().wait(executor().copy(host, {&device_, whole()}));
  if (bytes_ > 0) std::memcpy(array.data(), all.data() + kFence, bytes_);
  bool intact = true;
  for (std::size_t i = 0; i < kFence; ++i)
    intact &= all[i] == kFenceByte && all[kFence + bytes_ + i] == kFenceByte;
  return intact;
}

}  // namespace lathe::investigate
