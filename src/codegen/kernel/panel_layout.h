// How a staged panel is laid out. A panel is an array over axes; each axis stands for one range of the value
// or, where the panel lies as its source does, for all ranges that move along one axis of the source
// together.
//
//   value    Load(X, (y + ky)*W + x + kx - W - 1, 0 <= y + ky - 1 < H and 0 <= x + kx - 1 < W)
//   consumer's order   axes y, ky, x, kx          every element as often as it is used, in the order it is
//   used source's order     axes y + ky, x + kx        every element once, in the order it is in; zeros at
//   the border
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/small_vector.h"
#include "ir/node.h"

namespace lathe {

// Swizzled: the numbers themselves, in rows of 128 bytes (ir/group_ops.h), for units that read matrices.
enum class PanelOrder : std::uint8_t { Consumer, Source, Swizzled };

// One axis: coordinate = sum of weight * range - low, from 0 to extent - 1.
struct PanelAxis {
  SmallVector<Node, 4> ranges;
  SmallVector<std::int64_t, 4> weights;
  std::int64_t low = 0, extent = 1;
  std::int64_t stride = 0;  // of the source with a step of the coordinate; 0 where it is not even
  std::size_t unit = 0;     // the range of weight 1: it alone reaches every coordinate
  bool digits = false;      // the ranges are the digits of the coordinate, by growing weight
};

// Which range of the kernel as scheduled a range is a part of, and how far one step of it moves that one.
struct RangePlace {
  Node range;
  int origin = 0;
  std::int64_t weight = 1;
};

// The axes of a panel for `value` over the ranges `below`, outermost first.
std::vector<PanelAxis> panel_axes(Node value, const SmallVector<Node, 16>& below, PanelOrder order);

// The axes of a panel that a group of threads shares: ranges that go on where another ends are one axis,
// however they are spread over threads and registers. In the consumer's order what a thread holds in
// registers is last.
std::vector<PanelAxis> shared_axes(Node value, const SmallVector<Node, 16>& below, PanelOrder order);

// An axis for each range of the kernel as scheduled, whose parts are its digits, however the source moves
// with them: rows of a matrix that lie anywhere. Empty where a part is missing between two others.
std::vector<PanelAxis> matrix_axes(Node value, const SmallVector<Node, 16>& below,
                                   std::span<const RangePlace> places);

// The axes with the last ones joined until they have a multiple of `lanes` elements, as far as the source
// lies so too: rows of a few elements without a border are copied like long ones.
void join_last_axes(Node value, std::vector<PanelAxis>& axes, std::int64_t lanes);

// The load a value is made of one by one: itself, or what a chain of casts starts from, or the first of those
// that are packed into it; null where there is none.
Node source_load(Node value);

// How many neighbours in memory make one word, where a value is (made of) a Pack of such: else 1.
std::int64_t packed_neighbours(Node value);

}  // namespace lathe
