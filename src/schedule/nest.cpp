#include "schedule/nest.h"

#include <algorithm>

#include "ir/build.h"
#include "ir/range_tests.h"

namespace lathe {

Nest::Nest(std::span<const Node> outputs) { levels_.emplace_back(outputs.begin(), outputs.end()); }

bool Nest::put_outside(std::span<const Node> ranges) {
  std::size_t left = ranges.size();
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    std::vector<Node> in, out;
    for (Node r : levels_[i]) (contains(ranges, r) ? in : out).push_back(r);
    left -= in.size();
    if (out.empty() && !(in.empty() && left == 0)) continue;
    if (left > 0) return false;
    // The first level is split even where nothing of it is left parallel.
    if (out.empty() || (in.empty() && i > 0)) return true;
    levels_[i] = std::move(in);
    levels_.insert(levels_.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::move(out));
    return true;
  }
  return left == 0;
}

bool Nest::is_outside(std::span<const Node> ranges) const {
  std::size_t left = ranges.size();
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (i > 0 && left == 0) return true;
    for (Node r : levels_[i])
      if (!contains(ranges, r)) return false;
    left -= levels_[i].size();
  }
  return left == 0;
}

double Nest::parallel_steps() const {
  double n = 1;
  for (Node r : levels_[0]) n *= static_cast<double>(std::max<std::int64_t>(r.arg(0).hi(), 1));
  return n;
}

std::vector<Node> Nest::order() const {
  std::vector<Node> out;
  for (const std::vector<Node>& level : levels_) out.insert(out.end(), level.begin(), level.end());
  return out;
}

NodeMap<Node> Nest::loops(std::int64_t& next_id) const {
  NodeMap<Node> out;
  for (std::size_t i = 1; i < levels_.size(); ++i)
    for (Node r : levels_[i]) out.try_emplace(r, range(r.arg(0), next_id++, RangeKind::Loop));
  return out;
}

}  // namespace lathe
