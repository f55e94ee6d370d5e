// Proves that every access of a kernel is in bounds wherever its gate is true: first by intervals (the bounds
// of every node, narrowed by the gate), then by an SMT solver. Neither can prove most indices that depend on
// loaded data; such an access needs a guard at run time. A refuted access comes with values that break it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/node.h"

namespace lathe::verify {

enum class Proof : std::uint8_t { Interval, Solver, Unproved, Refuted };
std::string_view name(Proof proof);

struct AccessProof {
  Node access;  // a Load or Store
  Proof proof = Proof::Unproved;
  std::string counterexample;  // "r0 = 15, n = 3: index 18 of 16", where refuted
};

struct BoundsReport {
  std::vector<AccessProof> accesses;  // in order of the graph
  std::size_t count(Proof proof) const;
  bool all_proved() const { return count(Proof::Unproved) + count(Proof::Refuted) == 0; }
};

struct BoundsOptions {
  bool solver = true;        // ask the solver where intervals do not suffice
  unsigned effort = 100000;  // steps of the solver per question
};

BoundsReport prove_bounds(Node kernel, const BoundsOptions& options = {});

// Whether this build has a solver.
bool has_solver();

}  // namespace lathe::verify
