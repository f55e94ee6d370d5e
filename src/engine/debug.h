// The output of LATHE_DEBUG, and the profile it shows. Level 1: devices and schedules; 2: a line per kernel
// that is compiled or run, and a total at the end; 3 options, 4 source, 5 kernel graph, 6 program, each when
// the kernel is made. Also LATHE_SAVE, which writes the same to files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels.h"
#include "engine/memory_plan.h"
#include "schedule/schedule.h"

namespace lathe::engine {

// What one kernel did in one run.
struct KernelRun {
  std::string name, device, options, origin;
  double ns = 0, flops = 0, bytes = 0;
  double roof =
      0;  // share of what the machine can do for this ratio of flops to bytes; 0 where it is not known
  std::string place = {};  // the line of the user's program, where it is known
};

// The line of level 2. `colours` as the terminal has them.
std::string kernel_line(const KernelRun& run, bool colours);

// Shows how long compiling kernels took, which is done for several at once (level 2).
void note_compiled(std::span<const std::string> names, double ns);
// Shows a run at level 2 and up, and adds it to the profile while that is on.
void note_run(const KernelRun& run);
// Whether runs must be timed: level 2, or a profile is being taken.
bool timing_wanted();

// Shows a kernel that was just made (levels 3 to 6) and saves it (LATHE_SAVE). `program` is empty if it came
// from disk.
void show_kernel(const MadeKernel& made, const Program& program);
// The file in that folder.
std::string saved_kernel_file(const std::string& folder, const MadeKernel& made);
// Shows what a schedule will do (level 1; level 5 adds the memory plan).
void show_schedule(const Schedule& schedule, const MemoryPlan& plan, bool cached);

}  // namespace lathe::engine
