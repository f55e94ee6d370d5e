// Chooses which unrolled ranges become vector lanes: the range along which most loads and stores are
// contiguous, at most one per value.
#pragma once

#include <span>
#include <vector>

#include "ir/node.h"
#include "target/target.h"

namespace lathe {

// A range that expansion removes: `copies` times `lanes` values.
struct ExpandedRange {
  Node range;
  std::int64_t copies = 1;
  std::uint16_t lanes = 1;
};

// A lane's words may be so far apart that those between them are worth loading too.
constexpr std::int64_t kMostWordsApart = 4;
// The same for elements, each of which the machine could also take one by one.
constexpr std::int64_t kMostElementsApart = 4;

// All Upcast and Unroll ranges of a kernel in order of id, with lanes given to those that get them.
std::vector<ExpandedRange> choose_lanes(Node kernel, const Target& target);

// The neighbouring loads that one number is made of, lowest first: those that are packed into a word, or the
// bytes that shifts join, as where a number lies among bytes. Empty where it is made otherwise.
std::vector<Node> joined_neighbours(Node n);

// By how much an index grows with a step of the range; nothing where it is no multiple of it.
bool is_affine(Node index, Node range, std::int64_t& stride);

// How far apart lanes along the range are in a load's memory, where they are to be loaded with the elements
// between them and sorted by shuffles: few enough, and all of them in the memory; else 0. What the steps of
// `beside` add to the index is known where it is loaded, because they are in registers.
std::int64_t elements_apart(Node load, Node range, std::span<const Node> beside);

// Whether loads of vectors may have masks: else each lane under a mask is loaded alone.
bool may_mask(DType element, const Target& target);
// The same distance for lanes that are loaded under masks, whatever is between them; else 0.
std::int64_t masked_apart(Node load, Node range, const Target& target);

// Whether lanes along the range lie apart in what a store writes, and the steps of one of the others, in
// registers too, are all that is between: shuffles make whole vectors of them.
bool is_woven(Node store, Node range, std::span<const Node> beside);

}  // namespace lathe
