#include "schedule/order.h"

#include <algorithm>
#include <queue>

#include "ir/build.h"
#include "ir/shape.h"

namespace lathe {
namespace {

std::int64_t bytes_of(Node value) { return numel_max(value) * value.dtype().bytes(); }

// Whether the step makes little compared with what it reads: a store into memory that exists, a reduce. Such
// steps run as soon as they can, because what they read may be freed after them, and next to others that
// read the same, because then they can become one kernel.
bool runs_early(const PlannedStep& step) {
  constexpr std::int64_t kMuchLess = 4;
  if (step.root.is(Op::Store)) return true;
  std::int64_t most = 0;
  for (Node r : step.reads) most = std::max(most, bytes_of(r));
  return bytes_of(step.root) * kMuchLess <= most;
}

}  // namespace

StepOrder order_steps(const Plan& plan) {
  std::size_t n = plan.steps.size();
  NodeMap<int> made_by;               // stored value, copy, snapshot or effect -> step
  NodeMap<std::vector<int>> readers;  // memory version -> steps that read that very memory
  for (std::size_t i = 0; i < n; ++i) {
    made_by[plan.steps[i].root] = static_cast<int>(i);
    for (Node v : plan.steps[i].kept) made_by[v] = static_cast<int>(i);
  }
  std::vector<std::vector<int>> next(n);
  std::vector<int> waiting(n, 0);
  auto edge = [&](int before, int after) {
    if (before == after) return;
    next[static_cast<std::size_t>(before)].push_back(after);
    ++waiting[static_cast<std::size_t>(after)];
  };
  // The step must come after whatever produced the memory version.
  auto after_version = [&](Node version, int step) {
    if (!version.is(Op::After)) return;
    for (Node effect : version.args().subspan(1))
      if (const int* w = made_by.find(effect)) edge(*w, step);
  };
  for (std::size_t i = 0; i < n; ++i) {
    int step = static_cast<int>(i);
    for (Node r : plan.steps[i].reads) {
      const int* maker = made_by.find(r);
      if (maker != nullptr && *maker != step) {
        edge(*maker, step);
      } else if (is_memory(r)) {
        after_version(r, step);
        readers[r].push_back(step);
      }
    }
    for (Node version : plan.steps[i].written) after_version(version, step);
  }
  // A writer waits for everyone who still reads the version it replaces.
  for (std::size_t i = 0; i < n; ++i)
    for (Node v : plan.steps[i].written)
      if (const auto* list = readers.find(v))
        for (int r : *list) edge(r, static_cast<int>(i));

  StepOrder out;
  // Steps were planned from the outputs on: later in the list is nearer to the inputs, so take the highest
  // first, after those that run early.
  std::priority_queue<std::pair<bool, int>> ready;
  auto add = [&](int step) { ready.emplace(runs_early(plan.steps[static_cast<std::size_t>(step)]), step); };
  for (std::size_t i = 0; i < n; ++i)
    if (waiting[i] == 0) add(static_cast<int>(i));
  while (!ready.empty()) {
    int step = ready.top().second;
    ready.pop();
    out.order.push_back(step);
    for (int s : next[static_cast<std::size_t>(step)])
      if (--waiting[static_cast<std::size_t>(s)] == 0) add(s);
  }
  if (out.order.size() == n) {
    out.next = std::move(next);
    return out;
  }
  out.order.clear();
  out.cycle = true;
  for (std::size_t i = 0; i < n && !out.break_at; ++i)
    for (Node v : plan.steps[i].written)
      if (waiting[i] > 0 && !plan.stored.contains(v)) out.break_at = v;
  return out;
}

}  // namespace lathe
