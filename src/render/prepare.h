// Prepares a program for both printers. Small floats are replaced by operations on their bits, so that
// printers only handle integers, bool, float and double, and agree to the bit on all other dtypes.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"

namespace lathe::render {

// The program with half, bfloat16 and 8-bit floats held as unsigned integers and computed in float. Where the
// machine converts a float to one of these (and half to float) by an instruction, that stays a Cast (over
// Bitcast).
struct NativeFloats {
  bool half = false, bfloat16 = false;
};
Program lower_small_floats(const Program& program, NativeFloats native);

// Memory inside a kernel (Define). Arrays that would strain a stack live at an offset of a scratch area that
// the launcher provides; all else is a local variable.
struct LocalMemory {
  Node define;
  std::int64_t scratch_offset = -1;  // -1: a local variable
};
struct LocalLayout {
  std::vector<LocalMemory> memories;  // in order of first use
  std::int64_t scratch_bytes = 0;
};
LocalLayout layout_locals(const Program& program, std::int64_t stack_bytes);
inline constexpr std::int64_t kStackBytes = 32 * 1024;

// Bytes that one element of memory takes inside a kernel: vectors are padded to a power of two lanes.
std::int64_t local_element_bytes(DType dtype);

// Facts that make the plain instruction right: no zero or -1 among the divisors; no shift by the width or
// more.
bool divides_plainly(Node divisor);
bool shifts_plainly(Node amount);

// What a vector is shuffled from: the one vector whose lanes it has, two to four as long as itself, or two or
// four whole ones, one after the other. Empty where it is no such vector.
std::vector<Node> shuffled_vectors(Node vector);

// Throws InternalError for a load or store of rows that are apart: only fragments of tile units are printed
// so.
void check_contiguous(Node access);

// A constant that is not NaN, so that a comparison with it decides maximum and minimum alone.
bool is_number(Node node);
// Whether a maximum or minimum of floats compares its second operand with the first: a number comes first, so
// that "greater" alone decides, and an accumulator second, so that the next step waits for one comparison
// less. Of two zeros the one compared with is taken, so both printers ask this.
bool compares_backwards(Node extremum);

}  // namespace lathe::render
