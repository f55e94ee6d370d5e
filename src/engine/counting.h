// The engine's own counters; engine::counters() joins them with those of the runtime.
#pragma once

namespace lathe::engine {

void count_schedule();
void count_kernel(double flops, double bytes);
void count_seconds(double seconds);

}  // namespace lathe::engine
