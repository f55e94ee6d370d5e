#include "engine/graph_text.h"

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/hash.h"
#include "ir/text.h"
#include "ir/walk.h"

namespace lathe::engine {

std::string graph_text(std::string_view name, std::span<const Node> targets) {
  const std::string nodes = print_graph(targets);
  std::string head = fmt::format("{}{}", kGraphHead, name);
  const std::vector<Node> order = parse_nodes(nodes);
  for (const Node target : targets)
    head += fmt::format(" {}", std::find(order.begin(), order.end(), target) - order.begin());
  return head + "\n" + nodes;
}

void save_graph(std::span<const Node> targets) {
  const std::string& folder = flag_text(Flag::Save);
  if (folder.empty() || !flag_on(Flag::Verify)) return;
  const Scope scope;
  const std::string name = fmt::format("{:016x}", hash_string(print_graph(targets)));
  write_file_atomic(fmt::format("{}/graph_{}.txt", folder, name), graph_text(name, targets), Sync::No);
}

}  // namespace lathe::engine
