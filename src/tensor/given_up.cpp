#include "tensor/given_up.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <unordered_map>

#include "ir/build.h"
#include "runtime/storage.h"

namespace lathe {
namespace {

// All buffers and storages behind a buffer that were alive when it was computed; so chains of dead ones are
// not kept. In ascending order.
struct Behind {
  std::vector<std::int64_t> buffers;
  std::vector<std::uint64_t> storages;
};

struct Table {
  std::mutex mutex;
  std::unordered_map<std::int64_t, Behind> behind;  // by buffer
  std::size_t sweep_at = 1024;

  void sweep() {
    if (behind.size() < sweep_at) return;
    std::erase_if(behind, [](const auto& row) { return !has_memory(row.first); });
    sweep_at = std::max<std::size_t>(1024, 2 * behind.size());
  }
};
Table& table() {
  static auto* made = new Table;  // never destroyed: tensors may outlive it
  return *made;
}

bool carries_gradients(Node n) {
  return n.is(Op::Store) || (n.dtype().is_float() && !n.is(Op::Detach) && !n.is(Op::Bitcast));
}

bool moves_all(Node n) { return n.is(Op::Reshape) || n.is(Op::Permute) || n.is(Op::Flip); }

// Whether the last store of a version writes all of its memory: nothing that was there before is in it.
bool writes_all(Node version) {
  const Node store = version.args().back();
  if (!store.is(Op::Store)) return false;
  Node to = store.arg(0);
  while (moves_all(to)) to = to.arg(0);
  return to == version.arg(0);
}

// The nodes that a gradient would pass on its way back, from the expression on.
std::vector<Node> behind(Node expression) {
  std::vector<Node> found, stack{expression};
  NodeMap<char> seen;
  while (!stack.empty()) {
    const Node n = stack.back();
    stack.pop_back();
    if (!seen.try_emplace(n, 1).second) continue;
    found.push_back(n);
    if (!carries_gradients(n)) continue;
    if (n.is(Op::After) && writes_all(n))
      stack.push_back(n.args().back().arg(1));
    else
      stack.insert(stack.end(), n.args().begin(), n.args().end());
  }
  return found;
}

// Sorted, each once, without those that are asked.
template <class T>
void tidy(std::vector<T>& ids, const std::vector<T>& asked) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (!asked.empty())
    std::erase_if(ids, [&](T id) { return std::find(asked.begin(), asked.end(), id) != asked.end(); });
}

}  // namespace

void note_given_up(Node buffer, Node expression, const LiveStorages& live) {
  Behind found;
  for (Node n : behind(expression)) {
    if (!n.dtype().is_float()) continue;
    // Also memory that is still to be written, or was: what a version of it holds is read.
    if (n.is(Op::Buffer) || n.is(Op::After))
      if (const std::int64_t id = buffer_id(base_memory(n)); id != buffer_id(buffer))
        found.buffers.push_back(id);
    if (const auto* holders = n == expression ? nullptr : live.by_value.find(n))
      found.storages.insert(found.storages.end(), holders->begin(), holders->end());
  }
  std::lock_guard guard(table().mutex);
  const std::size_t direct = found.buffers.size();
  for (std::size_t i = 0; i < direct; ++i)
    if (const auto row = table().behind.find(found.buffers[i]); row != table().behind.end()) {
      const Behind& further = row->second;
      std::ranges::copy_if(further.buffers, std::back_inserter(found.buffers),
                           [](std::int64_t id) { return has_memory(id); });
      std::ranges::copy_if(further.storages, std::back_inserter(found.storages), [&](std::uint64_t number) {
        return std::ranges::binary_search(live.numbers, number);
      });
    }
  tidy(found.buffers, live.asked_buffers);
  tidy(found.storages, live.asked);
  if (found.buffers.empty() && found.storages.empty()) return;
  table().sweep();
  table().behind[buffer_id(buffer)] = std::move(found);
}

bool is_given_up(Node buffer) {
  std::lock_guard guard(table().mutex);
  return table().behind.contains(buffer_id(buffer));
}

bool was_computed_from(Node buffer, Node memory, std::uint64_t storage) {
  std::lock_guard guard(table().mutex);
  const auto row = table().behind.find(buffer_id(buffer));
  if (row == table().behind.end()) return false;
  return (memory && std::ranges::binary_search(row->second.buffers, buffer_id(memory))) ||
         std::ranges::binary_search(row->second.storages, storage);
}

}  // namespace lathe
