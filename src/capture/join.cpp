// The computations of a captured program as one: what passes from one to the next is planned memory of that
// one instead of a buffer of its own, and a replay has the work of one run.
#include <algorithm>

#include "capture/captured.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace lathe::capture {
namespace {

// The bindings of all; none where a variable that no argument binds has two values.
std::optional<Bound> common_bindings(const Captured& program) {
  Bound out;
  for (const Computation& c : program.computations)
    for (const auto& [variable, value] : c.bindings) {
      auto known = std::ranges::find_if(out, [&](const auto& b) { return b.first == variable; });
      if (known == out.end())
        out.emplace_back(variable, value);
      else if (known->second != value &&
               std::ranges::find(program.variables, variable) == program.variables.end())
        return std::nullopt;
    }
  return out;
}

class Joining {
 public:
  explicit Joining(const Captured& program) : program_(program) {}

  Captured run(Bound bindings) {
    for (const Computation& c : program_.computations) add(c);
    Captured out = program_;
    for (Output& output : out.outputs) {
      if (output.source.kind != Source::Kind::Result || !output.stand_in) continue;
      const Node value = results_[output.source.index][output.source.target];
      output.source = {Source::Kind::Result, 0, static_cast<std::uint32_t>(all_.results.size())};
      all_.results.emplace_back(value);
    }
    std::vector<Node> slots(slots_.begin(), slots_.end());
    out.computations = {{engine::prepare_schedule(std::move(all_), slots), sources_, std::move(bindings)}};
    return out;
  }

 private:
  Node slot_of(const Source& source, Node stand_in) {
    if (source.kind == Source::Kind::Result) return viewed(results_[source.index][source.target]);
    const auto known = std::ranges::find(sources_, source);
    if (known != sources_.end()) return slots_[static_cast<std::size_t>(known - sources_.begin())];
    sources_.push_back(source);
    slots_.emplace_back(new_buffer_like(stand_in));
    return slots_.back();
  }

  void add(const Computation& c) {
    NodeMap<Node> to;
    for (std::size_t i = 0; i < c.slots.size(); ++i)
      to[c.prepared->slots[i]] = slot_of(c.slots[i], c.prepared->slots[i]);
    auto renamed = [&](Node buffer) {
      if (const Node* known = to.find(buffer)) return *known;
      return to[buffer] = new_buffer_like(buffer);
    };
    for (Step step : c.prepared->schedule.steps) {
      for (NodeRef& buffer : step.buffers) buffer = renamed(buffer);
      all_.steps.push_back(std::move(step));
    }
    std::vector<NodeRef>& results = results_.emplace_back();
    for (const NodeRef& result : c.prepared->schedule.results) {
      for (Node n : toposort(result))
        if (n.is(Op::Buffer)) renamed(n);
      results.emplace_back(substitute(result, to));
    }
  }

  const Captured& program_;
  Schedule all_;
  std::vector<NodeRef> slots_;
  std::vector<Source> sources_;                // of the slots
  std::vector<std::vector<NodeRef>> results_;  // of each computation, over the joined one's buffers
};

}  // namespace

Captured joined(Captured program) {
  const Scope scope;
  if (program.computations.size() < 2) return program;
  std::optional<Bound> bindings = common_bindings(program);
  return bindings ? Joining(program).run(std::move(*bindings)) : program;
}

}  // namespace lathe::capture
