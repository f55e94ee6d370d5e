#include "option_lists/run_kernel.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "engine/kernels.h"
#include "engine/launch.h"
#include "ir/build.h"

namespace lathe::test {
namespace {

// Beside each buffer, on both sides.
constexpr std::size_t kAround = 256;
constexpr std::byte kMark{0xA5};

class Memories {
 public:
  explicit Memories(OpenDevice& device) : device_(device) {}
  ~Memories() {
    for (const Place& place : wholes_) device_.pool.give(place.span.memory);
  }
  Memories(const Memories&) = delete;
  Memories& operator=(const Memories&) = delete;

  void add(const reference::Array& contents) {
    const std::size_t bytes = contents.byte_count(), all = bytes + 2 * kAround;
    const Place whole{&device_, {device_.pool.take(all), 0, all}};
    std::vector<std::byte> image(all, kMark);
    std::copy_n(contents.data(), bytes, image.data() + kAround);
    executor().wait(executor().copy(whole, host(image)));
    wholes_.push_back(whole);
    places_.push_back({&device_, {whole.span.memory, kAround, bytes}});
  }
  const Place& operator[](std::size_t slot) const { return places_[slot]; }

  // Reads a buffer; says where the memory around it has changed.
  std::string read(std::size_t slot, reference::Array& contents) const {
    std::vector<std::byte> image(contents.byte_count() + 2 * kAround);
    executor().wait(executor().copy(host(image), wholes_[slot]));
    std::copy_n(image.data() + kAround, contents.byte_count(), contents.data());
    for (std::size_t i = 0; i < image.size(); ++i) {
      if (i == kAround) i += contents.byte_count();
      if (image[i] != kMark)
        return fmt::format("byte {} of buffer {} was written, which has {}",
                           static_cast<std::int64_t>(i) - static_cast<std::int64_t>(kAround), slot,
                           contents.byte_count());
    }
    return "";
  }

 private:
  static Place host(std::vector<std::byte>& image) {
    return {nullptr, {{0, image.size(), image.data()}, 0, image.size()}};
  }

  OpenDevice& device_;
  std::vector<Place> wholes_, places_;
};

}  // namespace

RunResult run_kernel(Node kernel, std::span<const Opt> options, OpenDevice& device,
                     std::span<const reference::Array> before, const reference::Bindings& bindings) {
  const engine::KernelRequest request{kernel, "k", &device, std::vector<Opt>(options.begin(), options.end())};
  const engine::ReadyKernel ready = engine::ready_kernels({&request, 1})[0];
  std::vector<std::pair<NodeRef, std::int64_t>> values;
  for (const auto& [name, value] : bindings) values.emplace_back(variable(name, value, value), value);
  Memories memories(device);
  for (const reference::Array& array : before) memories.add(array);
  Step step;
  step.ast = kernel;
  step.name = "k";
  RunResult result;
  result.after.assign(before.begin(), before.end());
  const Grid grid = engine::grid_of(ready.made->launch, values);
  if (engine::is_empty(grid)) return result;
  const engine::Launch launch(step, device, ready, grid, values,
                              [&](std::size_t slot) -> const Place& { return memories[slot]; });
  executor().wait(executor().launch(launch.work()));
  try {
    executor().throw_faults();
  } catch (const IndexError& error) {
    result.fault = error.what();
  }
  for (std::size_t slot = 0; slot < before.size(); ++slot) {
    const std::string outside = memories.read(slot, result.after[slot]);
    if (result.fault.empty()) result.fault = outside;
  }
  return result;
}

}  // namespace lathe::test
