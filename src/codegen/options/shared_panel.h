// How the threads of a group fill a staged panel together. The panel is divided into pieces, each as many
// contiguous elements of the source as one load takes, and thread t of T copies pieces t, t + T, t + 2T ...
// So for any ranges of the value, every thread copies an equal share, and neighbouring threads read
// neighbouring pieces.
//
//   value   Load(A, (m0*16 + m)*K + k0*8 + k)    m over 16 threads, n over 16 more, k a loop of 8
//   copy    i, v: piece = i*256 + t;  panel[(piece%2*4 + v)*20 + piece/2] = Load(A, ...)
//           with m = piece/2 and k = piece%2*4 + v
//   read    panel[k*20 + m]
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/small_vector.h"
#include "codegen/kernel/panel_layout.h"
#include "codegen/kernel/refusal.h"
#include "codegen/kernel/substitute.h"
#include "ir/node.h"
#include "target/target.h"

namespace lathe {

// What a swizzled panel holds, where all of it exists: number c of row r is element first + r*apart + c of
// the source. Panels of steps and of outputs are then the same where they hold the same.
struct PanelContent {
  Node source, first;
  std::int64_t apart = 0, rows = 0, columns = 0;
};
bool hold_the_same(const PanelContent& a, const PanelContent& b);

// The loops that fill a panel, and both sides' index into it.
struct PanelCopy {
  SmallVector<Node, 16> loops;  // of one thread, those in registers last
  Node index, read;             // into the panel: of the copy, of the value's readers
  Node value, gate;             // what the copy stores, and where; no gate where every thread's pieces exist
  std::int64_t size = 1;        // elements of the panel
  std::int64_t parts = 0;       // of words whose numbers are elements: how many there are
  std::int64_t part = 0;        // and how far apart
  std::optional<PanelContent> content;
};

// `below` are the ranges the panel runs over, `group` those of the threads, outermost first. Refused
// where a swizzled panel is asked for and the value is no matrix of words of numbers that were loaded.
OrRefusal<PanelCopy> shared_copy(Node value, const SmallVector<Node, 16>& below,
                                 const SmallVector<Node, 16>& group, PanelOrder order,
                                 std::span<const RangePlace> places, const Target& target, FreshIds& ids);

}  // namespace lathe
