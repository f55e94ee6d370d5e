#include "verify/guard.h"

#include <algorithm>

#include "ir/build.h"
#include "ir/walk.h"

namespace lathe::verify {
namespace {

// 0 <= index < size for every element the access touches.
Node inside(Node access, Node index) {
  DType dtype = index.dtype();
  std::int64_t size = memory_size(base_memory(access.arg(0)));
  std::uint16_t lanes = access.is(Op::Load) ? access.dtype().lanes : access.arg(2).dtype().lanes;
  if (dtype.lanes == 1) size -= lanes / base_memory(access.arg(0)).dtype().lanes - 1;
  auto bound = [&](std::int64_t v) { return splat(int_const(dtype.element(), v), dtype.lanes); };
  return logical_and(logical_not(less(index, bound(0))), less(index, bound(size)));
}

}  // namespace

Node guard_unproved(Node kernel, const BoundsReport& report) {
  NodeMap<char> unproved;
  for (const AccessProof& a : report.accesses)
    if (a.proof == Proof::Unproved) unproved[a.access] = 1;
  if (unproved.empty()) return kernel;
  NodeMap<Node> done;
  std::vector<Node> args;
  for (Node n : toposort(kernel)) {
    args.clear();
    for (Node a : n.args()) args.push_back(*done.find(a));
    if (!unproved.contains(n)) {
      done.try_emplace(n, rebuild(n, args));
      continue;
    }
    std::size_t place = n.is(Op::Load) ? 2 : 3;
    Node gate = inside(n, args[1]);
    if (args.size() > place) {
      std::uint16_t lanes = std::max(gate.dtype().lanes, args[place].dtype().lanes);
      gate = logical_and(splat(args[place], lanes), splat(gate, lanes));
      args.pop_back();
    }
    args.push_back(gate);
    done.try_emplace(n, intern(n.op(), n.dtype(), args, n.attr()));
  }
  return *done.find(kernel);
}

}  // namespace lathe::verify
