#include "engine/device_roof.h"

#include <algorithm>
#include <chrono>

#include "codegen/codegen.h"
#include "engine/kernels.h"
#include "ir/build.h"
#include "runtime/executor.h"

namespace lathe::engine {
namespace {

using Clock = std::chrono::steady_clock;

// Beyond every cache, and work enough to hide the launch.
constexpr std::size_t kCopied = std::size_t{512} << 20;
constexpr int kCopies = 8, kRounds = 5;
constexpr std::int64_t kElements = std::int64_t{1} << 23;
constexpr int kSteps = 256;

// Memory of the device for as long as it is measured. Not from the pool, whose peak is the program's.
class Scratch {
 public:
  Scratch(OpenDevice& device, std::size_t bytes)
      : device_(device), place_{&device, {device.device->alloc(bytes), 0, bytes}} {}
  ~Scratch() {
    executor().wait_unused(device_, place_.span);
    device_.device->free(place_.span.memory);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const Place& place() const { return place_; }

 private:
  OpenDevice& device_;
  Place place_;
};

double copy_rate(OpenDevice& device) {
  const Scratch from(device, kCopied), to(device, kCopied);
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    WorkPoint done{};
    for (int i = 0; i < kCopies; ++i) done = executor().copy(to.place(), from.place());
    executor().wait(done);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, 2.0 * static_cast<double>(kCopied) * kCopies / seconds);
  }
  return best;
}

// x*a + b again and again, four independent chains a thread.
double multiply_add_rate(OpenDevice& device) {
  const Scope scope;
  Node i = range(index_const(kElements), 0, RangeKind::Global),
       x = load(param(dtypes::Float32, 1, kElements), i);
  for (int s = 0; s < kSteps; ++s)
    x = x * float_const(dtypes::Float32, 0.5) + float_const(dtypes::Float32, 0.25);
  Node effect = end(store(param(dtypes::Float32, 0, kElements), i, x), {&i, 1});
  const Program program = lower_kernel(sink({&effect, 1}), parse_opts("UPCAST(0, 4) LOCAL(0, 256)"),
                                       device.compiler->target(), "roof");
  const std::unique_ptr<Kernel> kernel = device.device->load(device.compiler->compile(program));
  const Scratch to(device, kElements * sizeof(float)), from(device, kElements * sizeof(float));
  const Arg args[] = {{Arg::Kind::Span, to.place().span, 0}, {Arg::Kind::Span, from.place().span, 0}};
  const Place reads[] = {from.place()}, writes[] = {to.place()};
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double ns = executor().launch_timed(
        {&device, 0, kernel.get(), grid_of(program, {}), args, reads, writes, program.name});
    if (ns > 0) best = std::max(best, 2.0 * kSteps * static_cast<double>(kElements) / ns * 1e9);
  }
  return best;
}

}  // namespace

Roof measure_groups(OpenDevice& device) {
  Roof roof;
  roof.flops = multiply_add_rate(device);
  roof.bytes.push_back({0, copy_rate(device)});
  return roof;
}

}  // namespace lathe::engine
