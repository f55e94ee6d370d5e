// Arithmetic on 64-bit integers for machines that only have 32-bit ones: a number is a pair of unsigned
// words, and each operation is built from operations on them. Signed numbers are the same words interpreted
// differently. The step decompose guarantees that divisors are neither 0 nor a -1 that overflows, shift
// counts are below 64, and floats that become integers fit.
#pragma once

#include "ir/node.h"

namespace lathe {

struct WordPair {
  Node low, high;  // uint32, as many lanes as the number
};

bool is_word_pair(DType dtype);  // 64-bit integers, which are no indices

WordPair pair_of_constant(std::int64_t value, std::uint16_t lanes);
// A number of any dtype but those of 64-bit integers, converted.
WordPair pair_of(Node x);
// The number in another dtype that is no 64-bit integer; `is_signed` is how the pair is read.
Node from_pair(const WordPair& x, bool is_signed, DType to);

// A scalar op on numbers, of those whose result is one.
WordPair apply_to_pairs(Op op, const WordPair& x, const WordPair& y, bool is_signed);
WordPair opposite_of(Op op, const WordPair& x);  // Neg or Not
// Less, Eq or Ne.
Node compare_pairs(Op op, const WordPair& x, const WordPair& y, bool is_signed);
WordPair select_pair(Node condition, const WordPair& yes, const WordPair& no);

}  // namespace lathe
