#include "engine/far_elements.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "engine/kernels.h"
#include "engine/launch.h"
#include "ir/build.h"
#include "ir/ranges.h"

namespace lathe::engine {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 26;
// The size that a gather takes every buffer for, so that one kernel for each width serves all of them.
constexpr std::int64_t kAnySize = std::int64_t{1} << 40;
// Fetching few elements takes as long as asking the device for memory, so this much is kept for it.
constexpr std::size_t kKeptBytes = std::size_t{4} << 20;

// Bits are moved, whatever they mean.
DType bits_of(std::size_t width) {
  switch (width) {
    case 1: return dtypes::UInt8;
    case 2: return dtypes::UInt16;
    case 4: return dtypes::UInt32;
    case 8: return dtypes::UInt64;
    default: throw InternalError("check", "the element size is not a multiple of a byte");
  }
}

// out[i] = from[which[i]] for i in [0, count).
Step gather_step(std::size_t width, Node count) {
  const DType bits = bits_of(width);
  const Node out = param(bits, 0, kMostElements), from = param(bits, 1, kAnySize);
  const Node which = param(dtypes::Int64, 2, kMostElements), i = range(count, 0, RangeKind::Global);
  const Node element = load(from, cast(load(which, i), dtypes::Index));
  Step step;
  step.ast = sink(std::vector<Node>{end(store(out, i, element), std::vector<Node>{i})});
  step.name = "gather_elements";
  step.origin = "the check of a kernel";
  return step;
}

// Memory of a device for one fetch. Not from the pool, whose peak is the program's.
class Block {
 public:
  Block(OpenDevice& device, std::size_t bytes) : device_(device) {
    if (bytes <= kKeptBytes) {
      std::lock_guard guard(mutex());
      std::vector<Memory>& kept = kept_blocks()[&device];
      if (!kept.empty()) {
        memory_ = kept.back();
        kept.pop_back();
      }
    }
    if (memory_.bytes == 0) memory_ = device.device->alloc(std::max(bytes, kKeptBytes));
    place_ = {&device, {memory_, 0, bytes}};
  }
  ~Block() {
    executor().wait_unused(device_, place_.span);
    if (memory_.bytes > kKeptBytes) {
      device_.device->free(memory_);
    } else {
      std::lock_guard guard(mutex());
      kept_blocks()[&device_].push_back(memory_);
    }
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  const Place& place() const { return place_; }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  // As many as were in use at once; never destroyed, as devices are not.
  static std::map<const OpenDevice*, std::vector<Memory>>& kept_blocks() {
    static auto* all = new std::map<const OpenDevice*, std::vector<Memory>>;
    return *all;
  }

  OpenDevice& device_;
  Memory memory_;
  Place place_;
};

Place host_place(void* data, std::size_t bytes) { return {nullptr, {{0, bytes, data}, 0, bytes}}; }

}  // namespace

void fetch_elements(OpenDevice& device, const Place& from, std::size_t width,
                    std::span<const std::int64_t> elements, reference::FetchedElements& to) {
  if (elements.empty()) return;
  const Scope scope;
  const Node count = variable("count", 1, kMostElements);
  const Step step = gather_step(width, count);
  const KernelRequest request{step.ast, step.name, &device};
  const ReadyKernel kernel = ready_kernels(std::span(&request, 1))[0];

  std::vector<std::int64_t> which(elements.begin(), elements.end());
  std::vector<std::byte> bytes(elements.size() * width);
  const Block out(device, bytes.size()), indices(device, which.size() * sizeof which[0]);
  executor().wait(executor().copy(indices.place(), host_place(which.data(), which.size() * sizeof which[0])));
  const Place places[] = {out.place(), from, indices.place()};
  const std::vector<std::pair<NodeRef, std::int64_t>> bindings = {
      {count, static_cast<std::int64_t>(elements.size())}};
  Launch launch(step, device, kernel, grid_of(kernel.made->launch, bindings), bindings,
                [&](std::size_t slot) -> const Place& { return places[slot]; });
  launch.leave_uncounted();
  if (launch.fault() != nullptr) launch.fault()->told = true;  // all of them are inside
  executor().wait(executor().launch(launch.work()));
  executor().wait(executor().copy(host_place(bytes.data(), bytes.size()), out.place()));
  to.add(width, elements, bytes);
}

}  // namespace lathe::engine
