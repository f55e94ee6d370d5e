// Finds the loops whose panels become rings (pipeline_copies.h), and the instructions that fill the panels.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/lower/bulk_boxes.h"
#include "codegen/lower/program_tree.h"
#include "ir/program.h"

namespace lathe {

struct PipelinedLoop {
  int block = 0;  // its body
  Node range;
  std::int64_t slots = 1;
  std::vector<Node> panels;        // as they were
  std::vector<char> fill, needed;  // items that fill panels, and what those need of the others
  std::size_t full = 0;            // the barrier after which panels are read
  bool waits = false;              // some copies are asynchronous
  std::int64_t products = 0;       // of a unit that reads the panels, in a step
  std::vector<PanelBoxes> boxes;   // of each panel, where all of them come by bulk copies
  bool roles = false;              // which warps start that do nothing else
};

// Panels that are to have several slots (SharedForm), in order of first use.
std::vector<Node> ring_panels(const Program& program);
// Of those, the loops that are barrier, fills, barrier, work.
std::vector<PipelinedLoop> pipelined_loops(const Program& program, const ProgramTree& tree);

// The load that a value is, lane for lane, or null.
Node whole_load(Node value);
// A store of neighbours as they were loaded, as many as an asynchronous copy takes.
bool is_async_copy(Node store);

}  // namespace lathe
