// The tile of a sum of products that a group of threads computes: its ranges, and how each is divided. A
// thread holds `rows.registers * columns.registers` sums and reads its operands from panels in shared memory,
// one piece (the widest access) at a time.
//
//   range    n = ((block*far + f)*threads + t)*near + r      near and far in registers
//
// Neighbouring threads read neighbouring pieces, so a warp's reads have no bank conflicts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/choose/kernel_facts.h"
#include "target/matrix_units.h"
#include "target/target.h"

namespace lathe {

struct GroupSide {
  std::size_t range = 0;
  std::int64_t near = 1, threads = 1, far = 1;
  std::int64_t registers() const { return near * far; }
  std::int64_t extent() const { return near * threads * far; }
};

struct GroupTile {
  GroupSide rows, columns;  // neighbouring threads are neighbours along the columns
  std::size_t reduce = 0;
  std::int64_t steps = 1;            // of the reduce that panels hold
  std::vector<std::size_t> outside;  // other ranges of the reduce
};

// The tile of a group on a unit whose fragments a warp shares: fragments that a warp holds, and warps.
struct WarpTile {
  std::int64_t rows = 1, columns = 1, row_warps = 1, column_warps = 1;
  std::int64_t steps = 1;  // of fragments along the reduce that panels hold
};
// Whether the sums of a unit keep few bits, so that those of each step are added up in registers outside of
// it.
bool adds_outside(const MatrixUnit& unit);
// `whole`: rows and columns of the tile are multiples of it.
WarpTile choose_warp_tile(std::int64_t rows, std::int64_t columns, double batch, const MatrixUnit& unit,
                          const Target& target, std::int64_t whole = 1);

// The tile of a group on a unit that reads panels itself: fragments that four warps hold, how often there are
// four, and how many steps of the reduce panels hold at a time. No time where none fits.
struct PanelTile {
  std::int64_t fragments = 1, warpgroups = 1, slots = 1;
  double time = 0;
};
// `roles`: two times four warps get four more that start copies.
PanelTile choose_panel_tile(std::int64_t rows, std::int64_t columns, double batch, const MatrixUnit& unit,
                            const Target& target, bool roles = false);

// The tile that is done first by a plain count of what each core does, or nothing where the kernel is no sum
// of products with rows and columns to share.
std::optional<GroupTile> choose_group_tile(const KernelFacts& facts, const Target& target);

}  // namespace lathe
