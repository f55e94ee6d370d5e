#include "pipeline/spoil.h"

#include <vector>

#include "ir/build.h"

namespace lathe {
namespace {

Node with_arg(Node n, std::size_t which, Node arg) {
  std::vector<Node> args(n.args().begin(), n.args().end());
  args[which] = arg;
  return intern(n.op(), n.dtype(), args, n.attr());
}

}  // namespace

NodeMap<Node> negate_operand(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order) {
    if (!is_scalar_op(n.op()) || n.arg_count() < 2 || !n.dtype().is_float() || !n.arg(0).dtype().is_float() ||
        !n.arg(1).dtype().is_float())
      continue;
    std::vector<Node> args(n.args().begin(), n.args().end());
    args[1] = apply(Op::Neg, args[1]);
    map[n] = rebuild(n, args);
    break;
  }
  return map;
}

NodeMap<Node> shorten_loop(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order) {
    if (!n.is(Op::Range) || !n.arg(0).is_const() || n.arg(0).const_int() < 2) continue;
    map[n] = with_arg(n, 0, number(n.arg(0).dtype(), static_cast<double>(n.arg(0).const_int() - 1)));
    break;
  }
  return map;
}

NodeMap<Node> drop_gate(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order) {
    const std::size_t gate = n.is(Op::Load) ? 2 : n.is(Op::Store) ? 3 : n.arg_count();
    if (gate >= n.arg_count()) continue;
    map[n] = intern(n.op(), n.dtype(), n.args().first(gate), n.attr());
    break;
  }
  return map;
}

NodeMap<Node> stop_index(std::span<const Node> order) {
  NodeMap<Node> map;
  for (Node n : order) {
    if (!n.is(Op::Load) || !n.arg(0).is(Op::Param) || n.arg(1).is_const()) continue;
    const DType dtype = n.arg(1).dtype();
    map[n] = with_arg(n, 1, splat(number(dtype.element(), 0), dtype.lanes));
    break;
  }
  return map;
}

bool spoil(Node& kernel, Spoil change) {
  const NodeMap<Node> map = change(toposort(kernel));
  if (map.empty()) return false;
  kernel = substitute(kernel, map);
  return true;
}

bool spoil(Program& program, Spoil change) {
  const std::vector<Node> code(program.code.begin(), program.code.end());
  const NodeMap<Node> map = change(toposort(code));
  if (map.empty()) return false;
  for (NodeRef& node : program.code) node = substitute(node, map);
  return true;
}

}  // namespace lathe
