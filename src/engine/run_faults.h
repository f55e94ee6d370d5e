// Which launches the buffers of one run depend on (runtime/faults.h), followed step by step: what a step
// writes depends on what it reads and on the step itself. Costs nothing where no kernel checks indices.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "engine/prepared.h"
#include "runtime/faults.h"

namespace lathe::engine {

class RunFaults {
 public:
  RunFaults(const Prepared& prepared, std::span<const Node> slots);

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
