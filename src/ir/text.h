// The text form of graphs and programs (docs/ir.md, "Text form"): one line per node, operands before users.
// Printed text parses back to the same interned nodes; tests, golden files, error dumps and REF use it. The
// output depends only on the graph, not on addresses or on the order in which nodes were made.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/node.h"
#include "ir/program.h"

namespace lathe {

// All nodes below the root, the root last.
std::string print_graph(Node root);
std::string print_graph(std::span<const Node> roots);

// One line for people: the node with its operands named by what they are, and nothing below them.
std::string print_node(Node node);

// The node of the last line, or those of all lines in order. Empty lines and lines that start with # are
// skipped; a name after % may be any word. Throws UserError with the line and what was expected there.
Node parse_graph(std::string_view text);
std::vector<Node> parse_nodes(std::string_view text);

// A program with everything it holds: head lines, then the instructions indented by scope. A line `let %n =
// ...` is an operand that is no instruction; `run %n` is an instruction that an earlier line already spelt
// out.
std::string print_program(const Program& program);
Program parse_program(std::string_view text);

}  // namespace lathe
