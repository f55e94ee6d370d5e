#include "codegen/lower/fragments.h"

#include <algorithm>

#include "ir/build.h"
#include "ir/dot.h"
#include "ir/ranges.h"

namespace lathe {

bool is_fragment_product(Node node) {
  return node.is(Op::Dot) && dot_shape(node).is_tile() && dot_shape(node).threads == 1;
}

bool has_fragment_products(const Program& program) {
  return std::any_of(program.code.begin(), program.code.end(), [](Node n) { return is_fragment_product(n); });
}

NodeMap<Fragment> factor_fragments(const Program& program) {
  NodeMap<Fragment> out;
  for (Node node : program.code) {
    if (!is_fragment_product(node)) continue;
    const DotShape shape = dot_shape(node);
    out[node.arg(0)] = {shape.m, shape.k};
    out[node.arg(1)] = {shape.k, shape.n};
  }
  return out;
}

Fragment sum_fragment(const Program& program) {
  Fragment found;
  for (Node node : program.code) {
    if (!is_fragment_product(node)) continue;
    const DotShape shape = dot_shape(node);
    const Fragment sums{shape.m, shape.n};
    if (found.rows > 0 && sums != found) return {};
    found = sums;
  }
  return found;
}

std::vector<FragmentSum> fragment_sums(const Program& program, const NodeMap<Fragment>& fragments) {
  std::vector<FragmentSum> sums;
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

SplitIndex split_index(Node index) {
  if (index.is(Op::Add) && index.arg(1).is_const()) return {index.arg(0), index.arg(1).const_int()};
  return {index, 0};
}

}  // namespace lathe
