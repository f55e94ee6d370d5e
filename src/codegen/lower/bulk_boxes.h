// Finds the copies of a program that are boxes of a matrix. The threads of a group fill a panel in pieces of
// 16 bytes. If all pieces together form boxes of a matrix with evenly spaced rows, each row of a box being
// 128 bytes of the panel, one bulk copy can copy a box. The pieces of every thread are followed to find out.
//
//   l0 < 8, l1 < 32: panel[l1*64 + l0*8 ..] = A[(g1*32 + l1)*512 + k*64 + l0*8 ..]
//   a box of 64 columns and 32 rows at column k*64 and row g1*32 of a matrix with rows of 512
//
// A gate that is false outside the matrix is allowed, since a bulk copy writes zeros there. Other gates are
// not.
#pragma once

#include <optional>
#include <vector>

#include "ir/group_ops.h"
#include "ir/node.h"
#include "rules/linear.h"

namespace lathe {

struct PanelBoxes {
  BulkBox box;
  Node source;
  Linear column, row;  // of the first box, over what all threads agree on
  struct Place {
    std::int64_t index, column, row;  // in the panel, and from the first box on
  };
  std::vector<Place> places;  // of each box
};

// `stores` are all that fill the panel, as they stand in a program; `loops` are the loops they stand in. What
// else they depend on, but for the threads, is the same for all of them.
std::optional<PanelBoxes> panel_boxes(Node panel, const std::vector<Node>& stores,
                                      const std::vector<Node>& loops);

}  // namespace lathe
