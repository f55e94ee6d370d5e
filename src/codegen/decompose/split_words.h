// The step split_words, for targets without 64-bit integers: each becomes a pair of 32-bit words
// (word_pairs.h), in memory too, where a buffer of n of them is one of 2n words. For example
//
//   Store.void (Param.i64 [0, 8], i, Add.i64 (Load.i64 (Param.i64 [1, 8], i), 1))
//
// becomes, with w = Load.u32x2 (Param.u32 [1, 16], i * 2), low = Lane 0 of w plus 1,
//
//   Store.void (Param.u32 [0, 16], i * 2, Vec.u32x2 (low, Lane 1 of w plus Cast(low < Lane 0 of w)))
//
// Indices of such a target are 32-bit: memory that needs more is refused.
#pragma once

#include "ir/node.h"
#include "target/target.h"

namespace lathe {

Node split_words(Node kernel, const Target& target);

}  // namespace lathe
