#include "schedule/order.h"

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "ir/build.h"
#include "ir/shape.h"

namespace lathe {
namespace {

std::int64_t bytes_of(Node value) { return numel_max(value) * value.dtype().bytes(); }

// Whether the step writes little compared with what it reads: a store to existing memory, a reduce. Such
// steps run as early as possible, because what they read may be freed after them, and next to steps that read
// the same, because these can become one kernel.
bool runs_early(const PlannedStep& step) {
  constexpr std::int64_t kMuchLess = 4;
  if (step.root.is(Op::Store)) return true;
  std::int64_t most = 0;
  for (Node r : step.reads) most = std::max(most, bytes_of(r));
  return bytes_of(step.root) * kMuchLess <= most;
}

// For each cycle of steps that wait for each other, a memory version to copy so that the cycle is broken: the
// first that a step of the cycle writes. `waiting` counts what each step still waits for.
std::vector<Node> copies_to_keep(const Plan& plan, const std::vector<std::vector<int>>& next,
                                 const std::vector<int>& waiting) {
  const std::size_t n = plan.steps.size();
  std::vector<std::vector<int>> before(n);
  std::vector<int> followers(n, 0), idle;
  std::vector<char> in_cycle(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    if (waiting[i] == 0) continue;
    in_cycle[i] = 1;
    for (int s : next[i]) before[static_cast<std::size_t>(s)].push_back(static_cast<int>(i)), ++followers[i];
    if (followers[i] == 0) idle.push_back(static_cast<int>(i));
  }
  // A step that no step of a cycle waits for merely comes after the cycle.
  while (!idle.empty()) {
    const auto step = static_cast<std::size_t>(idle.back());
    idle.pop_back();
    in_cycle[step] = 0;
    for (int b : before[step])
      if (--followers[static_cast<std::size_t>(b)] == 0) idle.push_back(b);
  }
  std::vector<Node> out;
  for (std::size_t i = 0; i < n; ++i) {
    if (in_cycle[i] == 0) continue;
    std::vector<std::size_t> group{i};
    in_cycle[i] = 0;
    for (std::size_t at = 0; at < group.size(); ++at)
      for (const std::vector<int>* list : {&next[group[at]], &std::as_const(before)[group[at]]})
        for (int s : *list)
          if (std::exchange(in_cycle[static_cast<std::size_t>(s)], 0) != 0)
            group.push_back(static_cast<std::size_t>(s));
    std::sort(group.begin(), group.end());
    Node found;
    for (std::size_t member : group)
      for (Node v : plan.steps[member].written)
        if (!found && !plan.stored.contains(v)) found = v;
    if (found) out.push_back(found);
  }
  return out;
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
  out.break_at = copies_to_keep(plan, next, waiting);
  return out;
}

}  // namespace lathe
