#include "engine/wide_run.h"

#include <utility>
#include <vector>

#include "engine/memory_plan.h"
#include "engine/read_back.h"
#include "ir/launch.h"
#include "reference/reference.h"

namespace lathe::engine {
namespace {

constexpr double kMostOps = 2e9;

}  // namespace

bool run_wide(const Step& step, std::span<const Place> buffers, Bindings bindings) {
  const Scope scope;
  std::vector<reference::Array> arrays;
  std::vector<reference::View> views;
  for (std::size_t slot = 0; slot < buffers.size(); ++slot)
    arrays.push_back(read_back(step.buffers[slot], buffers[slot]));
  for (reference::Array& array : arrays) views.push_back(array.view());
  reference::Bindings values;
  for (const auto& [variable, value] : bindings) values.emplace_back(variable->text(), value);
  const reference::EvalReport report =
      reference::kernel_eval(step.ast, views, values, {.max_ops = kMostOps, .wide_floats = true});
  if (!report.ok() || report.sampled || report.index_fault) return false;
  const std::vector<SlotUse> uses = slot_uses(step.ast, buffers.size());
  for (std::size_t slot = 0; slot < buffers.size(); ++slot) {
    const Place& to = buffers[slot];
    if (!uses[slot].writes || to.span.bytes == 0) continue;
    const Place host{nullptr, {{0, to.span.bytes, arrays[slot].data()}, 0, to.span.bytes}};
    executor().wait(executor().copy(to, host));
  }
  return true;
}

}  // namespace lathe::engine
