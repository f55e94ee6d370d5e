#include "apps/investigations/minimize.h"

#include <algorithm>
#include <numeric>

namespace lathe::investigations {

Part smallest_part(std::size_t count, const TestParts& test, const std::function<bool()>& go_on) {
  Part part(count);
  std::iota(part.begin(), part.end(), std::size_t{0});
  std::size_t pieces = 2;
  while (part.size() > 1 && (!go_on || go_on())) {
    pieces = std::min(pieces, part.size());
    std::vector<Part> tried;
    const auto piece = [&](std::size_t i) {
      return std::pair{part.begin() + static_cast<std::ptrdiff_t>(part.size() * i / pieces),
                       part.begin() + static_cast<std::ptrdiff_t>(part.size() * (i + 1) / pieces)};
    };
    // Each piece alone, then each left out.
    for (std::size_t i = 0; i < pieces; ++i) tried.emplace_back(piece(i).first, piece(i).second);
    if (pieces > 2)
      for (std::size_t i = 0; i < pieces; ++i) {
        Part rest(part.begin(), piece(i).first);
        rest.insert(rest.end(), piece(i).second, part.end());
        tried.push_back(std::move(rest));
      }
    const std::vector<bool> holds = test(tried);
    const auto found = std::find(holds.begin(), holds.end(), true);
    if (found != holds.end()) {
      const auto index = static_cast<std::size_t>(found - holds.begin());
      part = tried[index];
      pieces = index < pieces ? 2 : std::max<std::size_t>(pieces - 1, 2);
    } else if (pieces < part.size()) {
      pieces *= 2;
    } else {
      break;
    }
  }
  return part;
}

}  // namespace lathe::investigations
