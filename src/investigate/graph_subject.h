// A tensor graph that is scheduled wrongly: kernels may each do what they say, and say the wrong thing.
// LATHE_SAVE with LATHE_VERIFY writes every graph that is scheduled (engine/graph_text.h), as graph_*.txt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "investigate/experiment.h"
#include "ir/node.h"

namespace lathe::investigate {

struct GraphSubject {
  std::string name;
  std::vector<NodeRef> targets;
};

bool is_graph_file(const std::string& path);
// Throws UserError naming the file and what is missing in it.
GraphSubject read_graph(const std::string& path);
bool is_graph_text(const std::string& text);
GraphSubject graph_from_text(const std::string& text, const std::string& called = "the text");
std::string to_text(const GraphSubject& subject, std::string_view about = "");
std::int64_t node_count(const GraphSubject& subject);

// What each step of scheduling gives, and then the kernels one after the other, evaluated on REF with made-up
// inputs, against the graph itself.
StepsRun run_schedule_on_ref(const GraphSubject& subject, const Conditions& conditions);

}  // namespace lathe::investigate
