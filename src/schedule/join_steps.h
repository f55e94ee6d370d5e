// Joins planned kernels over the same output ranges into one kernel with several stores, where that saves
// memory traffic: kernels that read the same elements, and a consumer that reads a value at the index where
// it is written, and so can use the value itself.
//
//   before   three kernels: m1[i] = f(m[i], g[i])    v1[i] = h(v[i], g[i])    w1[i] = k(w[i], m1[i], v1[i])
//   after    the three stores in one loop over i, which reads m, v, g and w once
//
// cost.h decides whether a join pays; this file decides whether it is possible.
#pragma once

#include <vector>

#include "rewrite/rewriter.h"
#include "schedule/order.h"
#include "schedule/planner.h"

namespace lathe {

struct JoinedStep {
  std::vector<int> members;  // planned steps, in order; one where nothing was joined
  Node sink;                 // kernel form over Buffers; null for a copy or an empty tensor
};

// The steps in execution order. A value that only members of its own kernel read is not stored, unless it is
// `wanted` afterwards. `max_buffers` is the device's limit for one kernel, 0 for none.
std::vector<JoinedStep> join_steps(const Plan& plan, const StepOrder& order, const NodeMap<char>& wanted,
                                   int max_buffers, const RuleChanges& changes);

}  // namespace lathe
