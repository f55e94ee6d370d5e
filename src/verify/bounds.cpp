#include "verify/bounds.h"

#include <algorithm>

#include "ir/build.h"
#include "ir/walk.h"
#include "verify/interval.h"
#include "verify/solver.h"

namespace lathe::verify {
namespace {

BoundsQuestion question_of(Node access) {
  BoundsQuestion q;
  Node base = base_memory(access.arg(0));
  std::size_t gate = access.is(Op::Load) ? 2 : 3;
  q.index = access.arg(1);
  if (access.arg_count() > gate) q.gate = access.arg(gate);
  q.lanes = access.is(Op::Load) ? access.dtype().lanes : access.arg(2).dtype().lanes;
  q.size = memory_size(base);
  // Memory of vectors is indexed by whole vectors.
  if (base.dtype().lanes > 1) q.lanes = std::max<std::uint16_t>(q.lanes / base.dtype().lanes, 1);
  return q;
}

bool inside_by_interval(const BoundsQuestion& q) {
  const std::int64_t more = q.index.dtype().lanes == 1 ? q.lanes - 1 : 0;
  if (q.index.lo() >= 0 && q.index.hi() < q.size - more) return true;  // whatever the gate says
  Assumptions assumptions;
  if (q.gate) assumptions.assume(q.gate);
  if (!assumptions.possible()) return true;
  Interval at = assumptions.of_sum(q.index);
  return (at.lo >= 0 && at.hi < q.size - more) || at.lo > at.hi || !assumptions.possible();
}

// A loop of which every iteration is impossible: an extent that is never positive.
bool never_runs(Node index) {
  for (Node n : toposort(index))
    if (n.is(Op::Range) && n.arg(0).hi() <= 0) return true;
  return false;
}

}  // namespace

std::string_view name(Proof proof) {
  constexpr std::string_view kNames[] = {"proved by interval", "proved by solver", "unproved", "refuted"};
  return kNames[static_cast<std::size_t>(proof)];
}

std::size_t BoundsReport::count(Proof proof) const {
  return static_cast<std::size_t>(std::count_if(accesses.begin(), accesses.end(),
                                                [&](const AccessProof& a) { return a.proof == proof; }));
}

BoundsReport prove_bounds(Node kernel, const BoundsOptions& options) {
  BoundsReport report;
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Load) && !n.is(Op::Store)) continue;
    AccessProof proof{n, Proof::Unproved, ""};
    BoundsQuestion q = question_of(n);
    if (inside_by_interval(q) || never_runs(q.index)) {
      proof.proof = Proof::Interval;
    } else if (options.solver) {
      BoundsAnswer answer = ask_solver(q, options.effort);
      if (answer.kind == BoundsAnswer::Kind::Inside) proof.proof = Proof::Solver;
      if (answer.kind == BoundsAnswer::Kind::CanLeave) proof = {n, Proof::Refuted, answer.counterexample};
    }
    report.accesses.push_back(std::move(proof));
  }
  return report;
}

}  // namespace lathe::verify
