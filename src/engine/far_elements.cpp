#include "engine/far_elements.h"

#include <bit>
#include <vector>

#include "base/error.h"
#include "engine/kernels.h"
#include "engine/launch.h"
#include "ir/build.h"
#include "ir/ranges.h"

namespace lathe::engine {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 26;

// Bits are moved, whatever they mean.
DType bits_of(std::size_t width) {
  switch (width) {
    case 1: return dtypes::UInt8;
    case 2: return dtypes::UInt16;
    case 4: return dtypes::UInt32;
    case 8: return dtypes::UInt64;
    default: throw InternalError("check", "elements of no whole number of bytes");
  }
}

// out[i] = from[which[i]] for i in [0, count). Sizes are rounded up, so that a process needs few of these.
Step gather_step(std::size_t width, std::size_t size, Node count) {
  const DType bits = bits_of(width);
  const auto rounded = static_cast<std::int64_t>(std::bit_ceil(size));
  const Node out = param(bits, 0, kMostElements), from = param(bits, 1, rounded);
  const Node which = param(dtypes::Int64, 2, kMostElements), i = range(count, 0, RangeKind::Global);
  const Node element = load(from, cast(load(which, i), dtypes::Index));
  Step step;
  step.ast = sink(std::vector<Node>{end(store(out, i, element), std::vector<Node>{i})});
  step.name = "gather_elements";
  step.origin = "the check of a kernel";
  return step;
}

// Not from the pool, whose peak is the program's.
class Block {
 public:
  Block(OpenDevice& device, std::size_t bytes)
      : device_(device), place_{&device, {device.device->alloc(bytes), 0, bytes}} {}
  ~Block() {
    executor().wait_unused(device_, place_.span);
    device_.device->free(place_.span.memory);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  const Place& place() const { return place_; }

 private:
  OpenDevice& device_;
  Place place_;
};

Place host_place(void* data, std::size_t bytes) { return {nullptr, {{0, bytes, data}, 0, bytes}}; }

}  // namespace

void fetch_elements(OpenDevice& device, const Place& from, std::size_t width,
                    std::span<const std::int64_t> elements, reference::FetchedElements& to) {
  if (elements.empty()) return;
  const Scope scope;
  const Node count = variable("count", 1, kMostElements);
  const Step step = gather_step(width, from.span.bytes / width, count);
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
