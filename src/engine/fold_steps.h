// Sums weighted by a softmax are one kernel on a device with groups where its matrix units take both of the
// kernel's products (codegen/options/paired_unit.h). Whether they do is known when options are chosen, so the
// schedule is made with such kernels first, and again without them where one is not taken.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "schedule/schedule.h"
#include "target/target.h"

namespace lathe::engine {

Schedule schedule_folds(std::span<const Node> targets, ScheduleOptions options,
                        const std::function<const Target*(const std::string&)>& target_of);

}  // namespace lathe::engine
