// Adds steps for products that take several kernels on a device: kernels that store factors again in the
// layout that its matrix units read (codegen/choose/lay_out_factors.h), and that compute long sums in parts
// (codegen/choose/split_sum.h).
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
