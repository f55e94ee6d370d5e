// Matrix units as rows of data: what an instruction multiplies and in which shape. Option TC takes the rows
// of a kernel's target; how they are spelled is the printers' (render/unit_text.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "target/target.h"

namespace lathe {

// What the instruction leaves to do: nothing; the products of a word still have to be added to the sum; they
// are sums of two in 16 bits, to be added in pairs first.
enum class UnitSum : std::uint8_t { Done, Add, AddPairs };

// How the operands of a unit that several threads share come to it: as words that each thread has read; as
// words or as matrices that a warp reads together from a swizzled panel; or the unit reads such panels
// itself.
enum class UnitReads : std::uint8_t { Words, Matrices, Panels };

struct MatrixUnit {
  std::string_view name;     // the instruction's
  std::string_view feature;  // of the target, by LLVM's name
  std::string_view dot;      // what it does to a pair of words: a kind of ir/dot.h
  int m, n, k;               // of a fragment, in words; 1 x 1 x 1: one word in each lane of a vector
  int most_lanes;            // of such a vector; narrower powers of two down to 4 exist too. Of fragments:
                             // how many the unit holds
  UnitSum sum;               // how products come to the sum
  int threads = 1;           // that hold a fragment together: each has its share in words (ir/dot.h)
  UnitReads reads = UnitReads::Words;
  int step = 0;  // of a unit that reads panels: words of one instruction along k
};

// All rows, best first; those that read panels themselves, which fit fewer kernels, last.
std::span<const MatrixUnit> matrix_units();
const MatrixUnit* find_matrix_unit(std::string_view name);
bool is_fragment_unit(std::string_view name);
bool has_fragments(const Target& target);
// Vector registers that it needs beside the sum and the words.
int scratch_registers(const MatrixUnit& unit);
// The best unit of a target's names for a kind of product of vectors, or of fragments, or null.
const MatrixUnit* unit_for_dot(std::span<const std::string> units, std::string_view dot,
                               bool fragments = false);

// Each name with a plus in a list such as "+avx2,+fma,-sse4a".
void for_each_feature(std::string_view features, const std::function<void(std::string_view)>& use);
bool has_feature(std::string_view features, std::string_view name);
// Names of the rows whose feature is in a list such as "+avx2,+fma", without those whose products a better
// one does as well.
std::vector<std::string> units_of_features(std::string_view features);

}  // namespace lathe
