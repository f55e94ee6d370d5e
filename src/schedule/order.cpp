#include "schedule/order.h"

#include <algorithm>
#include <queue>

#include "ir/build.h"

namespace lathe {

StepOrder order_steps(const Plan& plan) {
  std::size_t n = plan.steps.size();
  NodeMap<int> made_by;               // stored value, copy, snapshot or effect -> step
  NodeMap<std::vector<int>> readers;  // memory version -> steps that read that very memory
  for (std::size_t i = 0; i < n; ++i) made_by[plan.steps[i].root] = static_cast<int>(i);
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
    if (plan.steps[i].written_version) after_version(plan.steps[i].written_version, step);
  }
  // A writer waits for everyone who still reads the version it replaces.
  for (std::size_t i = 0; i < n; ++i)
    if (Node v = plan.steps[i].written_version)
      if (const auto* list = readers.find(v))
        for (int r : *list) edge(r, static_cast<int>(i));

  StepOrder out;
  // Steps were planned from the outputs on: later in the list is nearer to the inputs, so take the highest
  // first.
  std::priority_queue<int> ready;
  for (std::size_t i = 0; i < n; ++i)
    if (waiting[i] == 0) ready.push(static_cast<int>(i));
  while (!ready.empty()) {
    int step = ready.top();
    ready.pop();
    out.order.push_back(step);
    for (int s : next[static_cast<std::size_t>(step)])
      if (--waiting[static_cast<std::size_t>(s)] == 0) ready.push(s);
  }
  if (out.order.size() == n) return out;
  out.order.clear();
  out.cycle = true;
  for (std::size_t i = 0; i < n && !out.break_at; ++i)
    if (Node v = plan.steps[i].written_version; waiting[i] > 0 && v && !plan.stored.contains(v))
      out.break_at = v;
  return out;
}

}  // namespace lathe
