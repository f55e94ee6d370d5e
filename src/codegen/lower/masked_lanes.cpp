#include "codegen/lower/masked_lanes.h"

#include <vector>

#include "base/small_vector.h"
#include "codegen/lower/index_offset.h"
#include "ir/build.h"
#include "ir/op.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

// The gate with `positions` where lanes count up from 0.
Node gate_in(Node gate, Node positions) {
  NodeMap<Node> done;
  for (Node n : toposort(gate)) {
    Node made = n;
    if (n.is(Op::Iota)) {
      made = positions;
    } else if (n.dtype().lanes > 1 && !n.is(Op::Splat)) {
      Nodes args;
      for (Node a : n.args()) args.push_back(*done.find(a));
      made = rebuild(n, args);
    }
    done.try_emplace(n, made);
  }
  return *done.find(gate);
}

}  // namespace

bool is_of_positions(Node gate) {
  for (Node n : toposort(gate)) {
    if (n.dtype().lanes == 1 || n.is(Op::Splat)) continue;
    const bool counts = n.is(Op::Iota) && n.dtype().is_index();
    if (!counts && !is_scalar_op(n.op()) && !n.is(Op::Cast)) return false;
  }
  return true;
}

Node masked_lanes(Node memory, Node begin, Node gate, std::uint16_t lanes, std::int64_t every) {
  const bool in_lanes = gate && gate.dtype().lanes > 1;
  std::vector<Node> pieces;
  for (std::int64_t piece = 0; piece < every; ++piece) {
    Nodes own, positions;
    for (std::int64_t i = piece * lanes; i < (piece + 1) * lanes; ++i) {
      own.push_back(bool_const(i % every == 0));
      positions.push_back(index_const(i / every));
    }
    Node mask = vec(own);
    if (gate) mask = logical_and(mask, in_lanes ? gate_in(gate, vec(positions)) : splat(gate, lanes));
    pieces.push_back(load(memory, plus(begin, piece * lanes), mask, lanes));
  }
  Nodes sorted;
  for (std::int64_t i = 0; i < lanes; ++i) {
    const std::int64_t at = i * every;
    sorted.push_back(lane(pieces[static_cast<std::size_t>(at / lanes)], at % lanes));
  }
  return vec(sorted);
}

}  // namespace lathe
