// Faults planted in the result of a step (base/planted.h): a sink that changes the graph before anything else
// sees it. Null in a build without faults, and if no fault of a step is planted.
#pragma once

#include "pipeline/compile.h"

namespace lathe::engine {

// `seen` is whom the compile shows its steps to, or null; the result shows them the same with the fault, and
// is `seen` itself where there is none. It stays valid on this thread until the next call.
StepSink* with_planted_step(StepSink* seen);

}  // namespace lathe::engine
