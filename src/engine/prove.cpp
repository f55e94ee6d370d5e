#include "engine/prove.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/env.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/steps.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "verify/bounds.h"
#include "verify/guard.h"

namespace lathe::engine {
namespace {

// Steps of the solver for one access: usually the intervals have answered already. The questions of the op
// suite take up to 1,400.
constexpr unsigned kQuickEffort = 20000, kThoroughEffort = 500000;

verify::BoundsReport prove(Node kernel, const std::string& name, unsigned effort) {
  verify::BoundsOptions options;
  options.effort = effort;
  verify::BoundsReport report = verify::prove_bounds(kernel, options);
  for (verify::AccessProof& access : report.accesses) {
    if (access.proof != verify::Proof::Refuted) continue;
    // A value that a variable could be bound to, and that its user need not bind it to: told when it is.
    const bool by_variable =
        std::ranges::any_of(toposort(access.access), [](Node n) { return n.is(Op::Var); });
    if (!by_variable)
      throw InternalError("bounds",
                          fmt::format("kernel {} leaves its memory: {}", name, access.counterexample))
          .note(print_node(access.access));
    access.proof = verify::Proof::Unproved;
  }
  return report;
}

}  // namespace

Node prove_accesses(Node kernel, std::span<const Opt> options, const std::string& name,
                    const Compile& compile, ProofCounts& counts) {
  const bool thorough = flag_on(Flag::Verify);
  const unsigned effort = thorough ? kThoroughEffort : kQuickEffort;
  const verify::BoundsReport report = prove(kernel, name, effort);
  counts.by_interval += report.count(verify::Proof::Interval);
  counts.by_solver += report.count(verify::Proof::Solver);
  counts.guarded += report.count(verify::Proof::Unproved);
  Node guarded = verify::guard_unproved(kernel, report);
  if (compile.sink != nullptr) compile.sink->kernel(kGuardUnproved, guarded);
  if (thorough) prove(apply_options(guarded, options, compile.quiet()), name, effort);
  return guarded;
}

}  // namespace lathe::engine
