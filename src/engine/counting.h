// The engine's own counters; engine::counters() joins them with those of the runtime.
#pragma once

#include <cstdint>

namespace lathe::engine {

void count_schedule();
void count_kernel(double flops, double bytes);
void count_seconds(double seconds);

// How often this thread has read a buffer's data so far.
std::uint64_t host_reads();

}  // namespace lathe::engine
