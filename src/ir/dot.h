// Products of packed words: several small numbers in 32 bits, multiplied pairwise and summed. A dot-product
// instruction of a CPU does this in each lane, a tile unit many times at once.
//
//   Pack(a, b)            the word whose low half is a and whose high half is b
//   Dot bf16 (x, y, sum)  sum + x.high * y.high + x.low * y.low
//
// With a shape [m, n, k] the operands are fragments of matrices of words, row by row in the lanes of a
// vector: sum[m][n] + the products of the rows of x[m][k] with the columns of y[k][n].
//
// With a shape [16, 8, 8] of 32 threads, each thread holds its share of the words, and all 32 execute the op
// together. Thread 4*g + t, g < 8 and t < 4, holds
//   x    x[g][t], x[g + 8][t], x[g][t + 4], x[g + 8][t + 4]
//   y    y[t][g], y[t + 4][g]
//   sum  sum[g][2*t], sum[g][2*t + 1], sum[g + 8][2*t], sum[g + 8][2*t + 1]
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/node.h"
#include "ir/value.h"

namespace lathe {

struct DotKind {
  std::string_view name;
  Scalar x, y, sum;  // of a part of each word, and of the sum
  int parts;         // of a word
  int most_x;        // the largest part of x it is for, or 0: all that fit
  int sum_bits;      // of floats: how many a fragment's sum keeps behind its first; 0: all that float32 has
};
struct DotShape {
  int m = 1, n = 1, k = 1;
  int threads = 1;  // that have a share each
  bool is_tile() const { return m > 1; }
};

// u7i8: bytes without a sign up to 127, so that two products added fit 16 bits.
// bf16: the high parts first, each step one fused multiply-add; numbers below the smallest normal one count
// as zero, in the operands and in every result. Integers are exact and wrap.
// tf32: words are float32 numbers, of which the last 13 bits count as zeros.
// Other floats: all products of a fragment's step are added exactly, then rounded once and added to the sum.
// Where `sum_bits` says so that addition keeps few bits: sums of many steps are added up outside.
const DotKind* find_dot_kind(std::string_view name);
const DotKind& dot_kind(Node dot);

// A word from its parts, lowest first; or the words of one vector, whose neighbours are the parts.
Node pack(std::span<const Node> parts);
Node dot(const DotKind& kind, Node x, Node y, Node sum, DotShape shape = {});
DotShape dot_shape(Node dot);

// The same by ordinary operations, lanes and all.
Node dot_by_parts(const DotKind& kind, Node x, Node y, Node sum, bool fused);

// A float32 number as tf32 units read it: without its last 13 bits. The second is what was made so, or null.
Node as_tf32(Node x);
Node before_tf32(Node x);

// Part i of a word of the kind's floats, exactly.
double dot_part(const DotKind& kind, Scalar scalar, std::uint32_t word, int i);
Element dot_value(const DotKind& kind, std::uint32_t x, std::uint32_t y, Element sum);
// One sum of a fragment: a row of x and a column of y. bf16: the low and the high parts are summed apart from
// 0, then together, then added to the sum, each step flushed and rounded as above.
Element dot_row_value(const DotKind& kind, std::span<const std::uint32_t> x, std::span<const std::uint32_t> y,
                      Element sum);

}  // namespace lathe
