#include "verify/guard.h"

#include <algorithm>

#include "ir/build.h"
#include "ir/program.h"
#include "ir/walk.h"

namespace lathe::verify {
namespace {

// How many first elements an access may have: a scalar index with lanes touches those that follow as well.
Node last_start(Node access, DType index) {
  std::int64_t size = memory_size(base_memory(access.arg(0)));
  std::uint16_t lanes = access.is(Op::Load) ? access.dtype().lanes : access.arg(2).dtype().lanes;
  if (index.lanes == 1) size -= lanes / base_memory(access.arg(0)).dtype().lanes - 1;
  return splat(int_const(index.element(), size), index.lanes);
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
    const DType index = args[1].dtype();
    auto over_lanes = [&](Node gate) { return gate.dtype().lanes == 1 ? splat(gate, index.lanes) : gate; };
    Node when = args.size() > place ? args[place] : bool_const(true);
    // A gate of more lanes than the index says where any of its elements is touched.
    if (index.lanes == 1 && when.dtype().lanes > 1) when = hreduce(Op::Or, when);
    Node at = check(args[1], last_start(n, index), over_lanes(when), kUnprovedAccess);
    Node inside = logical_not(less(at, splat(int_const(index.element(), 0), index.lanes)));
    Node gate = inside;
    if (args.size() > place) {
      const std::uint16_t lanes = std::max(inside.dtype().lanes, args[place].dtype().lanes);
      gate = logical_and(splat(args[place], lanes), splat(inside, lanes));
      args.pop_back();
    }
    args[1] = at;
    args.push_back(gate);
    done.try_emplace(n, intern(n.op(), n.dtype(), args, n.attr()));
  }
  return *done.find(kernel);
}

}  // namespace lathe::verify
