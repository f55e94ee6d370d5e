#include "ir/device_of.h"

#include <vector>

#include "ir/build.h"

namespace lathe {

namespace {

// Of a node by itself; null where its operands say it.
Node own_source(Node n) { return n.is(Op::Buffer) || n.is(Op::Copy) ? n : realized(n); }

}  // namespace

std::string device_of(Node root) {
  NodeMap<char> seen;
  std::vector<Node> stack{root};
  while (!stack.empty()) {
    Node n = stack.back();
    stack.pop_back();
    if (Node source = own_source(n)) return source.text();
    if (!seen.try_emplace(n).second) continue;
    for (std::size_t i = n.arg_count(); i-- > 0;)
      if (n.arg(i).dtype() != dtypes::Index) stack.push_back(n.arg(i));
  }
  return "";
}

NodeMap<Node> device_sources(std::span<const Node> order) {
  NodeMap<Node> sources;
  sources.reserve(order.size());
  for (Node n : order) {
    Node source = own_source(n);
    for (std::size_t i = 0; !source && i < n.arg_count(); ++i)
      if (n.arg(i).dtype() != dtypes::Index) source = *sources.find(n.arg(i));
    sources.try_emplace(n, source);
  }
  return sources;
}

}  // namespace lathe
