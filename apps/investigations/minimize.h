// Delta debugging: a smallest part of a list that still has a property, found by running tests side by side.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace lathe::investigations {

using Part = std::vector<std::size_t>;
// For each part whether it has the property. The whole list has it.
using TestParts = std::function<std::vector<bool>(const std::vector<Part>&)>;

// No element of the result can be left out alone. `go_on` is asked between tests; where it says no, the
// smallest part so far is the result.
Part smallest_part(std::size_t count, const TestParts& test, const std::function<bool()>& go_on = {});

}  // namespace lathe::investigations
