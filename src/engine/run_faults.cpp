#include "engine/run_faults.h"

#include <algorithm>

#include "ir/walk.h"

namespace lathe::engine {
namespace {

// Whether a kernel writes every element of a param: then what it held before is gone.
bool covers(Node kernel, const ProgramParam& param) {
  auto stores_all = [&](Node store, std::int64_t elements) {
    constexpr std::size_t kUngated = 3;
    const Node memory = store.arg(0);
    return memory.is(Op::Param) && memory.ints()[0] == param.slot && store.arg_count() == kUngated &&
           elements == param.size;
  };
  for (Node node : toposort(kernel)) {
    if (node.is(Op::Store) && stores_all(node, 1)) return true;  // one element needs no range
    if (!node.is(Op::End) || !node.arg(0).is(Op::Store)) continue;
    std::int64_t elements = 1;
    for (Node range : node.args().subspan(1))
      elements *= range.is(Op::Range) && range.arg(0).is_const() ? range.arg(0).const_int() : 0;
    if (stores_all(node.arg(0), elements)) return true;
  }
  return false;
}

}  // namespace

RunFaults::RunFaults(const PreparedSchedule& prepared, std::span<const Node> slots) {
  const bool checks = std::any_of(prepared.steps.begin(), prepared.steps.end(), [](const PreparedStep& s) {
    return s.kernel.made != nullptr && !s.kernel.made->launch.checks.empty();
  });
  active_ = checks || any_faults();
  if (!active_) return;
  for (const Node& slot : slots) by_kind_[0].push_back(faults_of(slot));
  written_slots_.resize(slots.size());
  by_kind_[1].resize(prepared.fresh.size());
  by_kind_[2].resize(prepared.memory.buffers.size());
}

Faults& RunFaults::of(BufferSource source) {
  return by_kind_[static_cast<std::size_t>(source.kind)][source.index];
}

const Faults& RunFaults::at(BufferSource source) const {
  static const Faults none;
  return active_ ? by_kind_[static_cast<std::size_t>(source.kind)][source.index] : none;
}

void RunFaults::launched(const Step& step, const PreparedStep& ready, const LaunchFaultRef& own) {
  if (!active_) return;
  Faults read;
  for (const ProgramParam& param : buffer_params(ready.kernel.made->launch))
    if (param.reads) read = join(read, of(ready.buffers[static_cast<std::size_t>(param.slot)]));
  if (own != nullptr) read = with(read, own);
  for (const ProgramParam& param : buffer_params(ready.kernel.made->launch)) {
    if (!param.writes) continue;
    const BufferSource to = ready.buffers[static_cast<std::size_t>(param.slot)];
    const Faults& before = of(to);
    write(to, before == nullptr || covers(step.ast, param) ? read : join(before, read));
  }
}

void RunFaults::write(BufferSource source, Faults faults) {
  of(source) = std::move(faults);
  if (source.kind == BufferSource::Kind::Slot) written_slots_[source.index] = true;
}

void RunFaults::copied(const PreparedStep& ready) {
  if (active_) write(ready.buffers[0], of(ready.buffers[1]));
}

void RunFaults::finish(std::span<const Node> slots, std::span<const NodeRef> fresh) const {
  if (!active_) return;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (written_slots_[i]) set_faults(slots[i], by_kind_[0][i]);
  for (std::size_t i = 0; i < fresh.size(); ++i) set_faults(fresh[i], by_kind_[1][i]);
}

}  // namespace lathe::engine
