#include "tensor/versions.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ir/build.h"
#include "runtime/storage.h"
#include "tensor/impl.h"

namespace lathe {
namespace {

// A node by what it is, without keeping it alive. Nodes of one buffer's versions that are equal in this are
// one: what is made of the same operands in the same place is the same version, done again.
struct Name {
  const NodeData* node;
  std::uint64_t hash;
  bool operator==(const Name&) const = default;
};
Name name_of(Node n) { return {n.get(), n->hash}; }

// The valid names of each buffer that has more than its own.
struct Table {
  std::unordered_map<std::int64_t, std::vector<Name>> valid;
  std::size_t sweep_at = 1024;
};
Table& table() {
  static auto* all = new Table;  // under storage_mutex; never destroyed: tensors may die during exit
  return *all;
}

void sweep(Table& t) {
  if (t.valid.size() < t.sweep_at) return;
  std::erase_if(t.valid, [](const auto& entry) { return !has_memory(entry.first); });
  t.sweep_at = std::max<std::size_t>(1024, 2 * t.valid.size());
}

bool contains(const std::vector<Name>& names, Node n) {
  return std::find(names.begin(), names.end(), name_of(n)) != names.end();
}

// The names of what the buffer holds, once `was` was stored there.
std::vector<Name>& after_store(Node buffer, Node was) {
  sweep(table());
  std::vector<Name>& valid = table().valid[buffer_id(buffer)];
  if (was && contains(valid, was)) return valid;  // another handle to the same version
  valid.clear();
  if (was) valid.push_back(name_of(was));
  return valid;
}

}  // namespace

Node new_version_name(Node buffer, Node was, bool written) {
  Node mark = new_buffer(dtypes::Bool, 0, buffer_device(buffer));
  Node name = after(buffer, std::span(&mark, 1));
  set_realized(name, buffer);
  std::lock_guard guard(storage_mutex());
  if (written) {
    after_store(buffer, was).push_back(name_of(name));
    return name;
  }
  auto [entry, fresh] = table().valid.try_emplace(buffer_id(buffer));
  if (fresh) entry->second.push_back(name_of(buffer));
  entry->second.push_back(name_of(name));
  return name;
}

void note_written(Node memory) {
  std::lock_guard guard(storage_mutex());
  after_store(base_memory(memory), memory);
}

bool is_overwritten(Node memory) {
  if (memory.is(Op::After) && !realized(memory)) return false;  // still to be done
  std::lock_guard guard(storage_mutex());
  const auto entry = table().valid.find(buffer_id(base_memory(memory)));
  if (entry == table().valid.end()) return false;
  return !contains(entry->second, memory);
}

}  // namespace lathe
