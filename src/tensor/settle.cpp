#include "tensor/settle.h"

#include "ir/pending.h"
#include "tensor/realize.h"

namespace lathe {

bool is_pending_store(Node value) {
  Node memory = memory_of(value);
  return memory && memory.is(Op::After) && !realized(memory) && !realized(value);
}

void realize_values(const LiveValues& values, std::span<const Tensor> tensors) {
  std::vector<Tensor> all(tensors.begin(), tensors.end());
  for (const auto& [value, device] : values) {
    all.push_back(make_tensor(value, device));
    all.back().impl()->storage->tracked = true;  // the value is for others to hold
  }
  if (!all.empty()) Tensor::realize_all(all);
}

void settle_memory(std::span<const NodeRef> about_to_change) {
  const Scope scope;
  NodeMap<char> written;
  for (const NodeRef& buffer : about_to_change) written[buffer] = 1;
  LiveValues wanted;
  {
    std::lock_guard guard(storage_mutex());
    for (Storage* s = first_live_storage(); s != nullptr; s = s->after) {
      Node value = s->value;
      if (realized(value)) continue;
      bool reads = is_pending_store(value);
      if (!reads && !written.empty() && !memory_of(value) && !value.is_const())
        for (Node n : still_to_compute(std::span<const Node>(&value, 1)))
          reads |= written.contains(realized(n) ? realized(n) : n);
      if (reads && s->unasked)
        s->lost = true;
      else if (reads && !s->lost)
        wanted.emplace_back(value, s->device);
    }
  }
  realize_values(wanted, {});
}

}  // namespace lathe
