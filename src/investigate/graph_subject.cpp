#include "investigate/graph_subject.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "engine/graph_text.h"
#include "ir/text.h"
#include "ir/walk.h"

namespace lathe::investigate {

bool is_graph_file(const std::string& path) {
  const std::optional<std::string> text = read_file(path);
  return text && is_graph_text(*text);
}

bool is_graph_text(const std::string& text) { return text.starts_with(engine::kGraphHead); }

GraphSubject read_graph(const std::string& path) {
  return graph_from_text(read_file(path).value_or(""), path);
}

GraphSubject graph_from_text(const std::string& text, const std::string& called) {
  if (!is_graph_text(text))
    throw UserError("graph file", called + " does not begin as the graphs of LATHE_SAVE do");
  GraphSubject subject;
  std::istringstream head(text.substr(engine::kGraphHead.size(), text.find('\n')));
  head >> subject.name;
  const std::vector<Node> nodes = parse_nodes(text);
  std::size_t target = 0;
  while (head >> target) {
    if (target >= nodes.size()) break;
    subject.targets.emplace_back(nodes[target]);
  }
  if (subject.targets.empty()) throw UserError("graph file", called + " names no target");
  return subject;
}

std::string to_text(const GraphSubject& subject, std::string_view about) {
  const std::vector<Node> targets(subject.targets.begin(), subject.targets.end());
  std::string text = engine::graph_text(subject.name, targets), comments;
  std::istringstream lines{std::string(about)};
  for (std::string line; std::getline(lines, line);) comments += fmt::format("# about: {}\n", line);
  return text.insert(text.find('\n') + 1, comments);
}

std::int64_t node_count(const GraphSubject& subject) {
  const std::vector<Node> targets(subject.targets.begin(), subject.targets.end());
  const std::vector<Node> all = toposort(targets);
  return std::ranges::count_if(all, [](Node n) { return !n.is_const() && !n.is(Op::Buffer); });
}

}  // namespace lathe::investigate
