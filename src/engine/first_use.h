// LATHE_CHECK: before the result of a new kernel is used for the first time, samples of its outputs are
// compared with REF evaluating the kernel as scheduled on the same inputs. A kernel that differs is replaced
// by one made with fewer options (fallback.h), with a warning, and the run continues with the right result.
#pragma once

#include <span>

#include "engine/kernels.h"
#include "runtime/executor.h"
#include "runtime/faults.h"
#include "schedule/schedule.h"

namespace lathe::engine {

// Whether a launch of a kernel whose check is due has something to look after.
bool has_something_due(const ReadyKernel& kernel, const OpenDevice& device, Bindings bindings);

// Looks after a launch of a kernel that is due for a check; `places` are the bytes of its param slots.
// `kernel` becomes the one that runs in its stead, where it was replaced. True where it has run and was
// compared, with what its launch may report; false where nothing was to be compared, and it is still to be
// launched.
bool launch_checked(const Step& step, ReadyKernel& kernel, OpenDevice& device, std::span<const Place> places,
                    Bindings bindings, LaunchFaultRef& fault);

}  // namespace lathe::engine
