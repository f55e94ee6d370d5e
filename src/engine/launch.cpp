#include "engine/launch.h"

#include "engine/counting.h"
#include "engine/debug.h"
#include "engine/roof.h"
#include "lathe/memory.h"

namespace lathe::engine {

void run_launch(const Step& step, const MadeKernel& made, const Launch& launch, Wait wait) {
  const LaunchWork& work = launch.work();
  count_kernel(made.launch.flops, made.launch.bytes);
  if (timing_wanted()) {
    const double ns = executor().launch_timed(work);
    count_seconds(ns * 1e-9);
    KernelRun shown{step.name, work.device->text, to_string(made.options), step.origin,
                    ns,        made.launch.flops, made.launch.bytes,       0};
    if (const std::vector<PlaceRef> places = work_places(); !places.empty()) shown.place = places[0]->text();
    shown.roof = share_of_roof(*work.device, shown.flops, shown.bytes, ns);
    note_run(shown);
    return;
  }
  const WorkPoint point = executor().launch(work);
  if (wait == Wait::Yes) executor().wait(point);
}

}  // namespace lathe::engine
