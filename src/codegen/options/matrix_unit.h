// TC: a sum of products in steps of a matrix unit. Before any other option, the kernel is rewritten so that
// several steps of its reduce are one product of packed words (ir/dot.h); all else (TILE, STAGE, UPCAST,
// threads) then works on words as it does on floats.
//
//   before   k < 64:  Reduce(Add, Cast(Load(A, m*64 + k)) * Cast(Load(B, k*N + n)), k)          bf16 x bf16
//   after    k < 32:  Reduce(Add, Dot(Pack(Load(A, m*64 + k*2), Load(A, m*64 + k*2 + 1)),
//                                     Pack(Load(B, (k*2)*N + n), Load(B, (k*2 + 1)*N + n)), 0), k)
//
// Bytes with a sign on both sides, where the unit wants the first without one, are x*y = (x + 128)*y - 128*y;
// the second sum does not depend on what moves x alone, so it is done once for many rows (split_offsets).
#pragma once

#include <optional>

#include "base/small_vector.h"
#include "codegen/kernel/refusal.h"
#include "ir/node.h"
#include "lathe/options.h"
#include "target/matrix_units.h"

namespace lathe {

// How the unit is used; the last two are for tests of a row without its instruction.
enum class UnitUse : std::uint8_t { Instruction = 1, Loops = 2, Words = 3 };

// A kernel whose largest sum of products is one of packed words, and the ranges a fragment of the unit
// covers.
struct UnitKernel {
  Node kernel;
  const MatrixUnit* unit = nullptr;
  UnitUse use = UnitUse::Instruction;
  Node m, n, k;  // of the new kernel; m is null where the unit has no fragments
  // Where another product's sums, in registers, become the first factor (paired_unit.h): that one, with the
  // same rows; and other loops over its columns.
  struct {
    const MatrixUnit* unit = nullptr;
    Node n, k;
  } first;
  SmallVector<Node, 4> beside;
};

// The kernel after TC(axis, select, opt, use): `axis` is the position of the output range that lanes will run
// along, `select` the row among those the target has that fit (-1: the best), `opt` 0 where a range must
// divide evenly and 1 where the last word may be filled with zeros.
OrRefusal<UnitKernel> use_matrix_unit(Node kernel, const Opt& opt, const Target& target);

// The kernel's largest sum of products of small numbers, and its factors before they were widened.
struct SmallProduct {
  Node reduce, x, y;
};
std::optional<SmallProduct> small_product(Node kernel, const Target& target);
// The same of one reduce.
std::optional<SmallProduct> small_product_of(Node reduce, const Target& target);
// Such a sum with its steps in words of a unit that takes its factors as they are, and the range of words.
struct WordSum {
  Node sum, k;
};
WordSum sum_in_words(const SmallProduct& product, const MatrixUnit& unit, Node range);

// The TC option that fits a kernel, for a unit of fragments or of vectors, or nothing.
std::optional<Opt> matrix_unit_option(Node kernel, Node lane_range, const Target& target, bool fragments);

// Reduce(Add, a - b) of integers as Reduce(Add, a) - Reduce(Add, b), where b is a product of its own.
Node split_offsets(Node kernel);

// Sums over fragments that lie side by side in panels become products of fragments: the sums of a whole
// fragment are kept in its lanes and go through memory of the kernel's own once, when they are complete.
// Refused where `wanted` and a factor is not staged that way.
OrRefusal<Node> join_fragments(Node kernel, const Target& target, bool wanted);

// The ids of the ranges within a fragment that threads share (ir/dot.h, ir/group_ops.h), or -1: words of a
// step, halves of 16 rows, columns of a pair, eights of columns; over threads warps, rows and pairs.
struct FragmentRanges {
  const MatrixUnit* unit = nullptr;
  int k = -1, high = -1, low = -1, columns = -1;
  int warp = -1, group = -1, pair = -1;
};

// The same for a unit whose fragments are shared by the threads of a warp or of four: words or matrices are
// read from panels that the group shares, or the unit reads these itself.
OrRefusal<Node> join_shares(Node kernel, const FragmentRanges& at);

}  // namespace lathe
