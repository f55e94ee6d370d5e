#include "tensor/gradient_hooks.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "engine/engine.h"
#include "lathe/gradient_hook.h"
#include "runtime/storage.h"

namespace lathe {
namespace {

// Hooks in the order in which they were added.
using Hooks = std::vector<std::pair<std::uint64_t, GradientHook>>;

struct Leaf {
  std::weak_ptr<TensorImpl> impl;
  Hooks hooks;
};

// A hook may add and remove others, so none is called under the lock, nor dies there.
struct Table {
  std::mutex mutex;
  std::uint64_t made = 0;
  std::map<std::int64_t, Hooks> nodes;  // by the buffer that is the mark
  std::map<const TensorImpl*, Leaf> leaves;
  std::size_t sweep_at = 64;

  // What nobody can ask for any more.
  std::vector<Hooks> sweep() {
    std::vector<Hooks> dead;
    if (nodes.size() + leaves.size() < sweep_at) return dead;
    std::erase_if(nodes, [&](auto& row) {
      if (has_memory(row.first)) return false;
      dead.push_back(std::move(row.second));
      return true;
    });
    std::erase_if(leaves, [&](auto& row) {
      if (!row.second.impl.expired()) return false;
      dead.push_back(std::move(row.second.hooks));
      return true;
    });
    sweep_at = std::max<std::size_t>(64, 2 * (nodes.size() + leaves.size()));
    return dead;
  }
};
Table& table() {
  static auto* made = new Table;  // never destroyed: hooks may be a language's that has ended before
  return *made;
}

bool is_hook(Node n) { return n.is(Op::Custom) && n.text() == kGradientHook; }

// The node at which the tensor's gradient passes hooks: a new one unless it ends in one.
Node hook_node(Tensor& t) {
  const Scope scope;
  const Node value = node_of(t);
  if (is_hook(value)) return value;
  const bool one = true;
  const NodeRef mark = engine::buffer_from_host(dtypes::Bool, 1, t.device(), &one);
  const AttrData attr{std::string(kGradientHook), {}};
  const Node made = intern(Op::Custom, value.dtype(), {value, value, mark}, Attr::of(attr));
  std::lock_guard guard(storage_mutex());
  TensorImpl& impl = *t.impl();
  if (impl.view) {
    t.replace(make_tensor(made, t.device(), origin_of(t)));
  } else {
    impl.storage->value = made;
    ++impl.storage->version;
  }
  return made;
}

Tensor run(const Hooks& hooks, Tensor grad) {
  for (const auto& [number, hook] : hooks) {
    const Tensor changed = hook(grad);
    if (!changed.defined()) continue;
    if (node_of(changed).shape_node() != node_of(grad).shape_node())
      throw UserError("register_hook",
                      fmt::format("a hook gave {} for a gradient {}", describe(changed), describe(grad)))
          .help("give a tensor of the gradient's shape, or none");
    grad = changed.cast(grad.dtype());
  }
  return grad;
}

}  // namespace

std::uint64_t add_gradient_hook(Tensor& t, GradientHook hook) {
  node_of(t);
  if (!t.requires_grad())
    throw UserError("register_hook", fmt::format("{} requires no gradient", describe(t)))
        .help("call requires_grad_() on it, or on what it is computed from, before");
  const bool leaf = t.is_leaf();
  const std::int64_t mark = leaf ? 0 : buffer_id(hook_node(t).arg(2));
  std::vector<Hooks> dead;
  std::lock_guard guard(table().mutex);
  dead = table().sweep();
  Hooks* hooks = nullptr;
  if (leaf) {
    Leaf& row = table().leaves[t.impl().get()];
    if (row.impl.expired()) row = {t.impl(), {}};
    hooks = &row.hooks;
  } else {
    hooks = &table().nodes[mark];
  }
  hooks->emplace_back(++table().made, std::move(hook));
  return table().made;
}

void remove_gradient_hook(std::uint64_t number) {
  GradientHook gone;
  std::lock_guard guard(table().mutex);
  const auto remove_from = [&](Hooks& hooks) {
    const auto at = std::ranges::find(hooks, number, [](const auto& row) { return row.first; });
    if (at == hooks.end()) return;
    gone = std::move(at->second);
    hooks.erase(at);
  };
  for (auto& [mark, hooks] : table().nodes) remove_from(hooks);
  for (auto& [impl, leaf] : table().leaves) remove_from(leaf.hooks);
}

Tensor hooked_gradient(Node hook, const Tensor& grad) {
  Hooks hooks;
  {
    std::lock_guard guard(table().mutex);
    if (const auto row = table().nodes.find(buffer_id(hook.arg(2))); row != table().nodes.end())
      hooks = row->second;
  }
  return run(hooks, grad);
}

Tensor hooked_gradient(const Tensor& leaf, const Tensor& grad) {
  Hooks hooks;
  {
    std::lock_guard guard(table().mutex);
    const auto row = table().leaves.find(leaf.impl().get());
    if (row != table().leaves.end() && !row->second.impl.expired()) hooks = row->second.hooks;
  }
  return run(hooks, grad);
}

}  // namespace lathe
