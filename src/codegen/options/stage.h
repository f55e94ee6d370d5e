// STAGE: at a loop, the tile of a value that the loop's body uses is copied into a panel (kernel-local
// memory) and read from there. The panel is indexed by the ranges that the value uses inside the loop
// (panel_layout.h), so any index and gate is possible; where the value's loads are gated, the panel holds the
// zeros.
//
//   before   k0: m: k: ... Load(B, (k0*4 + k)*N + n) ...                     STAGE of that load at k0
//   after    k0: { k', n': panel[k'*N + n'] = Load(B, (k0*4 + k')*N + n') }
//                m: k: ... Load(panel, k*N + n) ...
#pragma once

#include <span>

#include "codegen/kernel/panel_layout.h"
#include "codegen/kernel/refusal.h"
#include "ir/group_ops.h"
#include "ir/node.h"
#include "target/target.h"

namespace lathe {

struct Staging {
  Node value;    // a node of the kernel
  int position;  // id of the range at whose loop it is staged, or -1: once, before everything
  PanelOrder order = PanelOrder::Consumer;
  std::int64_t slots = 1;  // steps of that loop that the panel is to hold at a time (pipeline_copies.h)
  Filling filling = Filling::Threads;  // and how they come there, where they are boxes of a matrix
};

// `places`: of all ranges, for panels that are matrices.
OrRefusal<Node> stage_values(Node kernel, std::span<const Staging> stages, std::span<const RangePlace> places,
                             const Target& target);

}  // namespace lathe
