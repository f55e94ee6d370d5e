// Strided lanes of a load that may not read what is between them, because a gate says so for each lane or
// because the last of it is outside of the memory: whole vectors under masks, whose lanes are then sorted.
//
//   before   lanes 4, every 2:   Load(m, i + [0, 2, 4, 6], gate of lane 0 to 3)
//   after    a = Load(m, i, gate of lanes [0, 0, 1, 1] and [1, 0, 1, 0])
//            b = Load(m, i + 4, gate of lanes [2, 2, 3, 3] and [1, 0, 1, 0])
//            Vec(a[0], a[2], b[0], b[2])
#pragma once

#include <cstdint>

#include "ir/node.h"

namespace lathe {

// Whether a gate in lanes is made of positions and constants, so that other lanes of it can be computed.
bool is_of_positions(Node gate);
// The load with `every` elements from lane to lane. `begin` is the index of the first; `gate` is one for all
// lanes, one in each lane, or null.
Node masked_lanes(Node memory, Node begin, Node gate, std::uint16_t lanes, std::int64_t every);

}  // namespace lathe
