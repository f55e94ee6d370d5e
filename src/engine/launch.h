// One launch of a kernel over buffers, with everything the executor needs to know about it.
#pragma once

#include "base/small_vector.h"
#include "engine/kernels.h"
#include "runtime/executor.h"
#include "runtime/faults.h"
#include "schedule/schedule.h"

namespace lathe::engine {

class Launch {
 public:
  // `place_at` gives the bytes of a param slot.
  template <class PlaceAt>
  Launch(const Step& step, OpenDevice& device, const ReadyKernel& kernel, const Grid& grid, Bindings bindings,
         const PlaceAt& place_at) {
    const Program& launch = kernel.made->launch;
    for (const ProgramParam& param : buffer_params(launch)) {
      const Place& place = place_at(static_cast<std::size_t>(param.slot));
      args_.push_back({Arg::Kind::Span, place.span, 0});
      if (param.reads) reads_.push_back(place);
      if (param.writes) writes_.push_back(place);
    }
    LaunchFaultRef fault;
    if (!launch.checks.empty()) {
      fault = std::make_shared<LaunchFault>(device, step.name, step.origin, launch.checks);
      args_.push_back({Arg::Kind::Span, fault->cell.span(), 0});
    }
    for (const NodeRef& variable : launch.variables)
      args_.push_back({Arg::Kind::Int, {}, evaluate_index(variable, bindings)});
    for (const std::int64_t argument : kernel.made->arguments)
      args_.push_back({Arg::Kind::Int, {}, argument});
    work_ = {&device, 0, kernel.kernel, grid, args_, reads_, writes_, step.name, std::move(fault)};
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  const LaunchWork& work() const { return work_; }
  const LaunchFaultRef& fault() const { return work_.fault; }  // null where the kernel checks no index
  void leave_uncounted() { work_.counted = false; }  // it is not among the launches the program asked for

 private:
  SmallVector<Arg, 8> args_;
  SmallVector<Place, 8> reads_, writes_;
  LaunchWork work_;
};

// Counts a launch and gives it to the executor; timed and shown where somebody wants to know.
enum class Wait : std::uint8_t { No, Yes };
void run_launch(const Step& step, const MadeKernel& made, const Launch& launch, Wait wait);

// Whether a launch of these sizes does nothing.
inline bool is_empty(const Grid& grid) {
  const auto none = [](std::int64_t n) { return n <= 0; };
  return none(grid.groups[0]) || none(grid.groups[1]) || none(grid.groups[2]) || none(grid.threads);
}

}  // namespace lathe::engine
