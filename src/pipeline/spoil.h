// Wrong changes to the result of a step, for builds with planted faults and for tests that check that they
// are detected. Each changes the first node that it fits.
#pragma once

#include <span>

#include "ir/program.h"
#include "ir/walk.h"

namespace lathe {

// What is put in place of which node; empty where the change fits nowhere. `order` is a toposort.
using Spoil = NodeMap<Node> (*)(std::span<const Node> order);

NodeMap<Node> negate_operand(std::span<const Node> order);  // x + y is x - y, x*y + z is -x*y + z; of floats
NodeMap<Node> shorten_loop(std::span<const Node> order);    // a loop takes a step less
NodeMap<Node> drop_gate(std::span<const Node> order);       // an access does what its gate keeps it from
NodeMap<Node> stop_index(std::span<const Node> order);      // a load always reads the first element

// Whether there was a place for it.
bool spoil(Node& kernel, Spoil change);
bool spoil(Program& program, Spoil change);

}  // namespace lathe
