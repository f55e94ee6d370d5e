#include "ir/launch.h"

#include "base/error.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/walk.h"

namespace lathe {

Node launch(const HandWritten& kernel, std::span<const Node> memory) {
  AttrData data{kernel.name + '\n' + kernel.options + '\n' + print_graph(kernel.kernel), {}};
  return intern(Op::Launch, dtypes::Void, memory, Attr::of(data));
}

HandWritten hand_written(Node launch) {
  const std::string_view text = launch.text();
  const std::size_t name = text.find('\n'), options = text.find('\n', name + 1);
  check_internal(options != std::string_view::npos, "launch", "a kernel without its name and options");
  return {std::string(text.substr(0, name)), std::string(text.substr(name + 1, options - name - 1)),
          parse_graph(text.substr(options + 1))};
}

std::vector<SlotUse> slot_uses(Node kernel, std::size_t slots) {
  std::vector<SlotUse> uses(slots);
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Load) && !n.is(Op::Store)) continue;
    Node memory = base_memory(n.arg(0));
    if (!memory.is(Op::Param)) continue;
    auto slot = static_cast<std::size_t>(param_slot(memory));
    check_internal(slot < slots, "kernel", "a kernel names a param without a buffer");
    (n.is(Op::Load) ? uses[slot].reads : uses[slot].writes) = true;
  }
  return uses;
}

}  // namespace lathe
