// A tensor graph as a file: a line with its name and its target nodes, then the nodes. With LATHE_VERIFY,
// LATHE_SAVE writes one for each scheduled graph.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ir/node.h"

namespace lathe::engine {

inline constexpr std::string_view kGraphHead = "# graph ";

std::string graph_text(std::string_view name, std::span<const Node> targets);
// Into the folder of LATHE_SAVE, where that and LATHE_VERIFY are set.
void save_graph(std::span<const Node> targets);

}  // namespace lathe::engine
