#include <fmt/format.h>

#include "base/error.h"
#include "capture/captured.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace lathe::capture {
namespace {

// The bindings of a computation under those of this call.
Bound bindings_for(const Computation& step, const Bound& bound) {
  Bound out = step.bindings;
  for (auto& [variable, value] : out)
    for (const auto& [name, now] : bound)
      if (name == variable) value = now;
  return out;
}

// The output's view over this call's buffer and under this call's bindings.
Node output_value(const Output& out, Node buffer, const Bound& bound) {
  NodeMap<Node> map;
  if (out.stand_in) map[out.stand_in] = buffer;
  if (!bound.empty())
    for (Node n : toposort(out.value)) {
      if (!n.is(Op::Bind)) continue;
      for (const auto& [variable, value] : bound)
        if (variable.node() == n.arg(0)) {
          Node args[] = {n.arg(0), index_const(value)};
          map[n] = intern(Op::Bind, n.dtype(), args, n.attr());
        }
    }
  const Node value = substitute(out.value, map);
  for (const Node& size : value.shape())
    if (size.hi() < 0)
      throw UserError("jit", fmt::format("an output would have {} elements along an axis of {}", size.hi(),
                                         index_text(size)))
          .help("the captured program needs larger values of its variables: bind those it was written for");
  return value;
}

}  // namespace

std::vector<Source> Captured::written() const {
  std::vector<Source> out;
  for (const Computation& c : computations)
    for (std::size_t i = 0; i < c.prepared->steps.size(); ++i) {
      const engine::PreparedStep& step = c.prepared->steps[i];
      auto add = [&](std::size_t buffer) {
        if (step.buffers[buffer].kind == engine::BufferSource::Kind::Slot)
          out.push_back(c.slots[step.buffers[buffer].index]);
      };
      if (c.prepared->schedule.steps[i].is_copy()) {
        add(0);
        continue;
      }
      for (const ProgramParam& param : buffer_params(step.kernel.made->launch))
        if (param.writes) add(static_cast<std::size_t>(param.slot));
    }
  return out;
}

std::vector<NodeRef> Captured::written_states() const {
  std::vector<bool> is_written(states.size(), false);
  for (const Source& source : written())
    if (source.kind == Source::Kind::State) is_written[source.index] = true;
  std::vector<NodeRef> out;
  for (std::size_t i = 0; i < states.size(); ++i)
    if (is_written[i]) out.push_back(states[i]);
  return out;
}

std::vector<NodeRef> replay(const Captured& program, std::span<const Node> arguments, const Bound& bound) {
  const Scope scope;
  std::vector<std::vector<NodeRef>> results;
  std::vector<NodeRef> fresh;
  for (const NodeRef& like : program.fresh) fresh.emplace_back(new_buffer_like(like));
  auto buffer_at = [&](const Source& source) -> Node {
    switch (source.kind) {
      case Source::Kind::Argument: return arguments[source.index];
      case Source::Kind::State: return program.states[source.index];
      case Source::Kind::Fresh: return fresh[source.index];
      case Source::Kind::Result: break;
    }
    return viewed(results[source.index][source.target]);
  };
  for (const Computation& step : program.computations) {
    std::vector<Node> slots;
    for (const Source& source : step.slots) slots.push_back(buffer_at(source));
    results.push_back(engine::run(*step.prepared, slots, bindings_for(step, bound)));
  }
  std::vector<NodeRef> out;
  for (const Output& output : program.outputs)
    out.emplace_back(output_value(output, output.stand_in ? buffer_at(output.source) : Node(), bound));
  return out;
}

}  // namespace lathe::capture
