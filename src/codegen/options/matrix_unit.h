// TC: a sum of products on a matrix unit. Before any other option, the kernel is rewritten so that several
// steps of its reduce are one product of packed words (ir/dot.h). All other options (TILE, STAGE, UPCAST,
// threads) then work on words as they do on floats.
//
//   before   k < 64:  Reduce(Add, Cast(Load(A, m*64 + k)) * Cast(Load(B, k*N + n)), k)          bf16 x bf16
//   after    k < 32:  Reduce(Add, Dot(Pack(Load(A, m*64 + k*2), Load(A, m*64 + k*2 + 1)),
//                                     Pack(Load(B, (k*2)*N + n), Load(B, (k*2 + 1)*N + n)), 0), k)
//
// If the unit needs an unsigned first factor and both are signed bytes, x*y = (x + 128)*y - 128*y. The second
// sum does not depend on the ranges that only move x, so it is computed once for many rows (split_offsets).
#pragma once

#include <optional>

#include "base/small_vector.h"
#include "codegen/kernel/refusal.h"
#include "ir/node.h"
#include "lathe/options.h"
#include "rewrite/rewriter.h"
#include "target/matrix_units.h"

namespace lathe {

// How the unit is used; the last two test the rewriting without the unit's instruction.
enum class UnitUse : std::uint8_t { Instruction = 1, Loops = 2, Words = 3 };

// A kernel whose largest sum of products is one of packed words, and the ranges a fragment of the unit
// covers.
struct UnitKernel {
  Node kernel;
  const MatrixUnit* unit = nullptr;
  UnitUse use = UnitUse::Instruction;
  Node m, n, k;  // of the new kernel; m is null if the unit has no fragments
  // If sums of products are the first factor of other products, in registers (paired_unit.h): all of these
  // products, which share their rows, those of scores first; and other loops over the columns of scores.
  struct Along {
    const MatrixUnit* unit = nullptr;
    Node n, k;
  };
  SmallVector<Along, 4> row;
  std::size_t scores = 0;  // number of products of scores
  SmallVector<Node, 4> beside;
};

// The kernel after TC(axis, select, opt, use). `axis` is the position of the output range that becomes lanes,
// `select` the number of the unit among those of the target that fit (-1: the best), `opt` is 0 if a range
// must divide evenly and 1 if the last word may be padded with zeros.
// The indices of words are simplified by these rules.
OrRefusal<UnitKernel> use_matrix_unit(Node kernel, const Opt& opt, const Target& target,
                                      const RuleChanges& rules = kRulesAsWritten);

// The kernel's largest sum of products of small numbers, and its factors before they were widened.
struct SmallProduct {
  Node reduce, x, y;
};
std::optional<SmallProduct> small_product(Node kernel, const Target& target);
// The same for a single reduce.
std::optional<SmallProduct> small_product_of(Node reduce, const Target& target);
// Such a sum with its steps in words, for a unit that takes the factors unchanged, and the range of words.
struct WordSum {
  Node sum, k;
};
WordSum sum_in_words(const SmallProduct& product, const MatrixUnit& unit, Node range,
                     const RuleChanges& rules);

// The TC option that fits a kernel, for a unit with fragments or for one with vectors; nothing if none fits.
std::optional<Opt> matrix_unit_option(Node kernel, Node lane_range, const Target& target, bool fragments);

// Rewrites an integer Reduce(Add, a - b) to Reduce(Add, a) - Reduce(Add, b), if a and b are products of
// words.
Node split_offsets(Node kernel);

}  // namespace lathe
