// Recognises a graph that was scheduled before. A graph is encoded as a list of integers in which buffers are
// numbered by first visit and the values of bound variables are omitted: graphs that differ only in these
// have equal lists and share one schedule. The encoding is the same in every process of a build, so it is
// also the key on disk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/node.h"

namespace lathe::engine {

struct GraphKey {
  std::vector<std::uint64_t> words;
  std::uint64_t hash = 0;
  std::vector<Node> buffers;                            // by slot
  std::vector<std::pair<Node, std::int64_t>> bindings;  // variables and their values
};

// The key of these targets. Throws UserError where a variable is bound to two values.
GraphKey key_of(std::span<const Node> targets);

// The targets with each buffer replaced by the stand-in of its slot and every bound value by the variable's
// lowest: what is scheduled, so that a cached schedule holds no user's memory.
struct Normalised {
  std::vector<Node> targets;
  std::vector<Node> stand_ins;  // by slot
};
Normalised normalise(std::span<const Node> targets, const GraphKey& key);

// The targets without what was computed before: a node that has a realised buffer becomes a view of it,
// and a Custom op its expansion: what it was applied to is not computed for it.
struct Stripped {
  std::vector<Node> targets;
  std::vector<std::pair<Node, Node>>
      versions;  // each After that is still to be done: as it was, and as it is here
};
Stripped strip_realized(std::span<const Node> targets);

}  // namespace lathe::engine
