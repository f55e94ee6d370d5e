// Tracks which launches the buffers of a run depend on (runtime/faults.h), step by step: what a step writes
// depends on the step and on what it reads. Costs nothing if no kernel checks indices.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "engine/prepared_schedule.h"
#include "runtime/faults.h"

namespace lathe::engine {

class RunFaults {
 public:
  RunFaults(const PreparedSchedule& prepared, std::span<const Node> slots);

  // A step was submitted; `own` is null where it checks nothing.
  void launched(const Step& step, const PreparedStep& ready, const LaunchFaultRef& own);
  void copied(const PreparedStep& ready);
  const Faults& at(BufferSource source) const;
  // Says it of the run's own buffers.
  void finish(std::span<const Node> slots, std::span<const NodeRef> fresh) const;

 private:
  Faults& of(BufferSource source);
  void write(BufferSource source, Faults faults);

  bool active_ = false;
  std::vector<bool> written_slots_;
  std::array<std::vector<Faults>, 3> by_kind_;  // slots, fresh buffers, planned ones
};

}  // namespace lathe::engine
