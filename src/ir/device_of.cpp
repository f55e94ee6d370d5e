#include "ir/device_of.h"

#include <vector>

#include "ir/build.h"
#include "ir/walk.h"

namespace lathe {

std::string device_of(Node root) {
  NodeMap<char> seen;
  std::vector<Node> stack{root};
  while (!stack.empty()) {
    Node n = stack.back();
    stack.pop_back();
    if (n.is(Op::Buffer)) return buffer_device(n);
    if (n.is(Op::Copy)) return n.text();
    if (Node held = realized(n)) return buffer_device(held);
    if (!seen.try_emplace(n).second) continue;
    for (std::size_t i = n.arg_count(); i-- > 0;)
      if (n.arg(i).dtype() != dtypes::Index) stack.push_back(n.arg(i));
  }
  return "";
}

}  // namespace lathe
