#include "tensor/given_up.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ir/build.h"
#include "ir/walk.h"
#include "runtime/storage.h"

namespace lathe {
namespace {

using Ids = std::vector<std::int64_t>;  // in ascending order

// By buffer, all buffers behind it that were alive when it was computed; so chains of dead ones are not kept.
struct Table {
  std::mutex mutex;
  std::unordered_map<std::int64_t, Ids> behind;
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

}  // namespace

void note_given_up(Node buffer, Node expression) {
  Ids found;
  for (Node n : toposort(std::span<const Node>(&expression, 1), carries_gradients))
    if (n.is(Op::Buffer) && n.dtype().is_float()) found.push_back(buffer_id(n));
  std::lock_guard guard(table().mutex);
  const std::size_t direct = found.size();
  for (std::size_t i = 0; i < direct; ++i)
    if (const auto row = table().behind.find(found[i]); row != table().behind.end())
      std::copy_if(row->second.begin(), row->second.end(), std::back_inserter(found),
                   [](std::int64_t id) { return has_memory(id); });
  if (found.empty()) return;
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  table().sweep();
  table().behind[buffer_id(buffer)] = std::move(found);
}

bool was_computed_from(Node buffer, Node memory) {
  std::lock_guard guard(table().mutex);
  const auto row = table().behind.find(buffer_id(buffer));
  return row != table().behind.end() &&
         std::binary_search(row->second.begin(), row->second.end(), buffer_id(memory));
}

}  // namespace lathe
