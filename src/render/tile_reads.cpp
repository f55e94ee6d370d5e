#include "render/tile_reads.h"

#include <algorithm>
#include <vector>

#include "ir/build.h"
#include "ir/ranges.h"
#include "rules/linear.h"
#include "target/cache_line.h"

namespace lathe::render {

constexpr std::int64_t kFragmentBytes = 1024;

namespace {

struct Sum {  // a loop that adds products up, and those around it
  Node loop, around, outside;
  std::vector<Node> again, once;  // fragments, by whether the next step of `around` reads the same
};

std::vector<Sum> find_sums(const Program& program, const NodeMap<Node>& fragments) {
  std::vector<Sum> sums;
  std::vector<Node> open;
  for (Node node : program.code) {
    if (node.is(Op::Range)) open.push_back(node);
    if (node.is(Op::End)) open.pop_back();
    if (!node.is(Op::Load) || !fragments.contains(node) || open.size() < 2) continue;
    const std::size_t depth = open.size();
    if (sums.empty() || sums.back().loop != open.back())
      sums.push_back({open.back(), open[depth - 2], depth > 2 ? open[depth - 3] : Node(), {}, {}});
    (depends_on(node.arg(1), sums.back().around) ? sums.back().once : sums.back().again).push_back(node);
  }
  return sums;
}

}  // namespace

NodeMap<KeptSteps> kept_steps(const Program& program, const NodeMap<Node>& fragments, std::int64_t cache) {
  NodeMap<KeptSteps> kept;
  for (const Sum& sum : find_sums(program, fragments)) {
    const std::int64_t all = sum.loop.arg(0).hi();
    for (Node fragment : sum.once) kept[fragment] = {sum.loop, sum.again.empty() ? all : 0};
    const auto bytes = static_cast<std::int64_t>(sum.again.size()) * kFragmentBytes;
    for (Node fragment : sum.again) kept[fragment] = {sum.loop, std::min(all, cache * 2 / 3 / bytes)};
  }
  return kept;
}

NodeMap<NextFragments> next_fragments(const Program& program, const NodeMap<Node>& fragments,
                                      std::int64_t cache) {
  NodeMap<NextFragments> next;
  for (const Sum& sum : find_sums(program, fragments)) {
    if (sum.again.empty() || !sum.outside || !sum.around.arg(0).is_const()) continue;
    Node first = sum.again[0], memory = base_memory(first.arg(0));
    const int word = memory.dtype().bytes();
    std::int64_t ahead = 0;
    Linear place = linear(first.arg(1));
    for (const Term& term : place.terms)
      if (term.node == sum.outside) ahead = term.coefficient * word;
    bool follow = memory_size(memory) * word > cache;
    for (std::size_t i = 0; i < sum.again.size(); ++i) {
      const Linear here = linear(sum.again[i].arg(1));
      follow &= base_memory(sum.again[i].arg(0)) == memory &&
                (here.constant - place.constant) * word == static_cast<std::int64_t>(i) * kFragmentBytes;
    }
    const std::int64_t lines = static_cast<std::int64_t>(sum.again.size()) * kFragmentBytes / kLineBytes,
                       steps = sum.around.arg(0).int_attr();
    if (ahead > 0 && follow) next[first] = {sum.around, ahead, (lines + steps - 1) / steps * kLineBytes};
  }
  return next;
}

}  // namespace lathe::render
