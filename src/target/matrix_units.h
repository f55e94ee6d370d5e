// Matrix units as rows of data: what an instruction multiplies, in which shape, and what it is called. Option
// TC takes the rows of a kernel's target; nothing else asks which chip it is.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "target/target.h"

namespace lathe {

struct MatrixUnit {
  std::string_view name;       // the instruction's
  std::string_view feature;    // of the target, by LLVM's name
  std::string_view dot;        // what it does to a pair of words: a kind of ir/dot.h
  int m, n, k;                 // of a fragment, in words; 1 x 1 x 1: one word in each lane of a vector
  int most_lanes;              // of such a vector; narrower powers of two down to 4 exist too. Of fragments:
                               // how many the unit holds
  std::string_view llvm;       // the intrinsic; {} is the width in bits
  std::string_view registers;  // which the C compiler may use: "v" all, "x" the first 16
  std::string_view text;       // in inline assembly: %0 is the sum, %1 and %2 the words
};

// All rows, best first.
std::span<const MatrixUnit> matrix_units();
const MatrixUnit* find_matrix_unit(std::string_view name);
bool is_fragment_unit(std::string_view name);
bool has_fragments(const Target& target);
// The best unit of a target's names for a kind of product of vectors, or of fragments, or null.
const MatrixUnit* unit_for_dot(std::span<const std::string> units, std::string_view dot,
                               bool fragments = false);

// Each name with a plus in a list such as "+avx2,+fma,-sse4a".
void for_each_feature(std::string_view features, const std::function<void(std::string_view)>& use);
// Names of the rows whose feature is in a list such as "+avx2,+fma".
std::vector<std::string> units_of_features(std::string_view features);

}  // namespace lathe
