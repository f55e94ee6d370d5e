// Products of a schedule that take several kernels on a device: their factors are stored once more, as its
// matrix units read them (codegen/choose/lay_out_factors.h), and long sums are taken in parts
// (codegen/choose/split_sum.h). The kernels that do so become steps before them.
#pragma once

#include <functional>
#include <string>

#include "schedule/schedule.h"
#include "target/target.h"

namespace lathe::engine {

// `target_of` gives the target of a device by its name, or null where nothing is compiled for it. Factors
// that several products read laid out in the same way are stored once.
Schedule lay_out_steps(Schedule schedule, const std::function<const Target*(const std::string&)>& target_of);

}  // namespace lathe::engine
