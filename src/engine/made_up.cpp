#include "engine/made_up.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "ir/build.h"
#include "ir/walk.h"
#include "reference/array.h"

namespace lathe::engine {
namespace {

constexpr std::size_t kMostBytes = std::size_t{32} << 20;
constexpr std::int64_t kIntegers = 8;      // different ones
constexpr std::int64_t kDifferent = 4099;  // numbers, then they repeat: a prime, so that rows differ

}  // namespace

std::vector<bool> deciding_slots(Node kernel, std::size_t slots) {
  std::vector<Node> roots;
  for (Node n : toposort(kernel)) {
    const std::size_t gate = n.is(Op::Load) ? 2 : 3;
    if (n.is(Op::Range)) roots.push_back(n.arg(0));
    if (n.is(Op::Load) || n.is(Op::Store)) {
      roots.push_back(n.arg(1));
      if (n.arg_count() > gate) roots.push_back(n.arg(gate));
    }
    if (n.is(Op::Check))
      for (Node a : n.args()) roots.push_back(a);
  }
  std::vector<bool> out(slots, false);
  for (Node n : toposort(roots))
    if (n.is(Op::Load))
      if (const Node memory = base_memory(n.arg(0)); memory.is(Op::Param))
        out[static_cast<std::size_t>(memory.ints()[0])] = true;
  return out;
}

MadeUp::MadeUp(const Step& step, OpenDevice& device, std::span<const Place> real) : device_(device) {
  std::size_t total = 0;
  for (const Place& place : real) total += place.span.bytes;
  fits_ = total <= kMostBytes;
  if (!fits_) return;
  const std::vector<bool> deciding = deciding_slots(step.ast, real.size());
  for (std::size_t slot = 0; slot < real.size(); ++slot) {
    const std::size_t bytes = real[slot].span.bytes;
    // Not from the pool, whose peak is the program's.
    places_.push_back({&device, {device.device->alloc(std::max<std::size_t>(bytes, 1)), 0, bytes}});
    fill(step.buffers[slot], places_.back(), deciding[slot], real[slot], slot);
  }
}

MadeUp::~MadeUp() {
  for (const Place& place : places_) {
    executor().wait_unused(device_, place.span);
    device_.device->free(place.span.memory);
  }
}

void MadeUp::fill(Node buffer, const Place& place, bool as_real, const Place& real, std::size_t slot) const {
  if (place.span.bytes == 0) return;
  if (as_real) {
    executor().wait(executor().copy(place, real));
    return;
  }
  const DType dtype = buffer.dtype();
  reference::Array array(dtype, buffer_size(buffer));
  const std::int64_t different = std::min(array.size(), kDifferent);
  for (std::int64_t i = 0; i < different; ++i) {
    const std::uint64_t bits = hash_all(slot, i) >> 20;
    const double real_number = static_cast<double>(bits) * 0x1p-43 - 1;
    const auto integer = static_cast<std::int64_t>(bits % (dtype.is_bool() ? 2 : kIntegers));
    array.set(
        i, convert(dtype, dtype.is_float() ? dtypes::Float64 : dtypes::Int64, Element{integer, real_number}));
  }
  const auto block = static_cast<std::size_t>(different) * static_cast<std::size_t>(dtype.bytes());
  for (std::size_t at = block; at < array.byte_count(); at += block)
    std::memcpy(array.data() + at, array.data(), std::min(block, array.byte_count() - at));
  const Place host{nullptr, {{0, array.byte_count(), array.data()}, 0, array.byte_count()}};
  executor().wait(executor().copy(place, host));
}

}  // namespace lathe::engine
