// The text of the matrix units of target/matrix_units.h for printers: LLVM's intrinsics, and inline assembly.
#pragma once

#include <string>
#include <string_view>

#include "target/matrix_units.h"

namespace lathe::render {

struct UnitText {
  std::string_view unit;       // by name; of a unit of four warps without the width of its fragments
  std::string_view llvm;       // the intrinsic; {} is the width in bits, and | is between the names for 4, 8
                               // and 16 lanes where they differ otherwise
  std::string_view registers;  // which the C compiler may use: "v" all, "x" the first 16
  std::string_view assembly;  // with the names sum, x, y, t (scratch) and ones; of a unit of several threads,
                              // the instruction's name, with {} for the width of fragments
  std::string_view last = {};  // of a unit that reads panels: operands behind those that all have
};
// Every unit has one.
const UnitText& text_of(const MatrixUnit& unit);

// The name of its intrinsic for so many lanes.
std::string intrinsic_of(const MatrixUnit& unit, int lanes);
// Adds in pairs what UnitSum::AddPairs leaves, as a product with ones.
std::string pair_sums_intrinsic(int lanes);

}  // namespace lathe::render
