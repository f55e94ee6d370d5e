#include "engine/check_plan.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/walk.h"
#include "reference/reference.h"
#include "verify/aliasing.h"

namespace lathe::engine {
namespace {

// Operations of REF for one kernel, and the value of a variable: which iterations meet does not depend on it.
constexpr double kMostOps = 2e6;
constexpr std::int64_t kSmallSize = 3;

int slot_of(const Step& step, const NodeRef& buffer) {
  const auto at = std::ranges::find(step.buffers, buffer);
  return at == step.buffers.end() ? -1 : static_cast<int>(at - step.buffers.begin());
}

Node param_of(Node kernel, int slot) {
  for (Node n : toposort(kernel))
    if (n.is(Op::Param) && param_slot(n) == slot) return n;
  return Node();
}

// Iterations that meet where the input and the output are one memory.
std::string in_place_fault(const Step& step, const NodeRef& output, const NodeRef& input) {
  const Scope scope;
  const int to = slot_of(step, output), from = slot_of(step, input);
  if (to < 0 || from < 0) return fmt::format("kernel {} does not use both", step.name);
  const Node written = param_of(step.ast, to), read = param_of(step.ast, from);
  if (!written || !read || written.dtype() != read.dtype()) return "";
  NodeMap<Node> map;
  map.try_emplace(read, written);
  const Node kernel = substitute(step.ast, map);
  reference::Bindings bindings;
  std::vector<reference::Array> memory;
  for (const NodeRef& buffer : step.buffers) memory.emplace_back(buffer->dtype(), buffer_size(buffer));
  for (Node n : toposort(kernel))
    if (n.is(Op::Var)) bindings.emplace_back(n.text(), std::clamp(kSmallSize, n.lo(), n.hi()));
  std::vector<reference::View> views;
  for (reference::Array& array : memory) views.push_back(array.view());
  const reference::EvalReport report = reference::kernel_eval(kernel, views, bindings, {.max_ops = kMostOps});
  return report.faults.empty() ? "" : report.faults[0];
}

}  // namespace

std::string plan_fault(const MemoryPlan& plan, const Schedule& schedule) {
  std::vector<verify::PlacedBuffer> placed;
  for (const PlannedBuffer& buffer : plan.buffers) {
    const auto arena =
        std::ranges::find_if(plan.arenas, [&](const Arena& a) { return a.device == buffer.device; });
    if (arena == plan.arenas.end() || buffer.offset + buffer.bytes > arena->bytes)
      return fmt::format("buffer {} is outside of its arena", placed.size());
    placed.push_back({static_cast<std::int64_t>(placed.size()), static_cast<int>(arena - plan.arenas.begin()),
                      buffer.offset, buffer.bytes, buffer.first, buffer.last, buffer.in_place_of});
  }
  if (const std::vector<std::string> found = verify::check_placement(placed); !found.empty()) return found[0];
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.in_place_of < 0) continue;
    const Step& step = schedule.steps[static_cast<std::size_t>(buffer.first)];
    const NodeRef& input = plan.buffers[static_cast<std::size_t>(buffer.in_place_of)].buffer;
    if (const std::string fault = in_place_fault(step, buffer.buffer, input); !fault.empty())
      return fmt::format("kernel {} writes over an input that it still reads: {}", step.name, fault);
  }
  return "";
}

void check_plan(const MemoryPlan& plan, const Schedule& schedule) {
  if (const std::string fault = plan_fault(plan, schedule); !fault.empty())
    throw InternalError("memory plan", fault).note(to_string(plan, 20));
}

}  // namespace lathe::engine
