// `lathe faults --judges`: which check of Lathe notices which planted fault, as a table by class of faults.
#pragma once

#include <string>
#include <vector>

#include "lathe/dev/planted_faults.h"

namespace lathe::tool {

// Whether every fault is noticed by a judge that has to notice all of its class.
bool judge_faults(const std::vector<dev::PlantedFault>& faults, const std::vector<std::string>& subjects,
                  const std::vector<std::vector<std::string>>& commands, bool json);

}  // namespace lathe::tool
