// On a device with groups, a sum weighted by a softmax is one kernel if the matrix units accept both of its
// products (codegen/options/paired_unit.h). That is only known when options are chosen, so the schedule is
// first made with such kernels, and made again without them if one is refused.
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
