// Questions about graphs that several files of this folder ask.
#include "tensor/impl.h"

namespace lathe {

std::string device_of(Node root) {
  // Operands are visited in order and the first buffer or copy wins, so the answer does not depend on
  // addresses.
  NodeMap<char> seen;
  std::vector<Node> stack{root};
  while (!stack.empty()) {
    Node n = stack.back();
    stack.pop_back();
    if (n.is(Op::Buffer)) return buffer_device(n);
    if (n.is(Op::Copy)) return n.text();
    if (Node held = realized(n)) return buffer_device(held);
    if (!seen.try_emplace(n).second) continue;
    for (std::size_t i = n.arg_count(); i-- > 0;) stack.push_back(n.arg(i));
  }
  return "";
}

}  // namespace lathe
