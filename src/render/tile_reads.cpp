#include "render/tile_reads.h"

#include <algorithm>
#include <vector>

#include "ir/ranges.h"

namespace lathe::render {

constexpr std::int64_t kFragmentBytes = 1024;

NodeMap<KeptSteps> kept_steps(const Program& program, const NodeMap<Node>& fragments, std::int64_t cache) {
  struct Sum {  // a loop that adds products up, and the one around it
    Node loop, around;
    std::vector<Node> again, once;
  };
  std::vector<Sum> sums;
  std::vector<Node> open;
  for (Node node : program.code) {
    if (node.is(Op::Range)) open.push_back(node);
    if (node.is(Op::End)) open.pop_back();
    if (!node.is(Op::Load) || !fragments.contains(node) || open.size() < 2) continue;
    Node loop = open.back(), around = open[open.size() - 2];
    if (sums.empty() || sums.back().loop != loop) sums.push_back({loop, around, {}, {}});
    (depends_on(node.arg(1), around) ? sums.back().once : sums.back().again).push_back(node);
  }
  NodeMap<KeptSteps> kept;
  for (const Sum& sum : sums) {
    const std::int64_t all = sum.loop.arg(0).hi();
    for (Node fragment : sum.once) kept[fragment] = {sum.loop, sum.again.empty() ? all : 0};
    const auto bytes = static_cast<std::int64_t>(sum.again.size()) * kFragmentBytes;
    for (Node fragment : sum.again) kept[fragment] = {sum.loop, std::min(all, cache * 2 / 3 / bytes)};
  }
  return kept;
}

}  // namespace lathe::render
